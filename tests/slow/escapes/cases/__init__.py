"""The attempts, as data: a file for each kind."""
