"""Many machines: runs that any worker may drive, on the Postgres that they share.

Down the layers: commands → submit → queue → worker → seats → drive → work (what a run takes along) → git.
"""
