"""The repositories and scripts of `segue demo`."""
