"""The command line: one file per command; each imports what it needs when it is called."""
