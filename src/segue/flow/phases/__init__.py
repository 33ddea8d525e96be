"""One file per phase."""
