"""The only door to the machine: processes, git, files, locks, secrets."""
