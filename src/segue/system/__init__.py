"""Everything that touches the machine: processes, git, HTTP, files, locks, secrets."""
