"""A stand-in for stet."""
