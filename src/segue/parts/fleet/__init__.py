"""Many machines: runs that any worker may drive, on the Postgres that they share."""
