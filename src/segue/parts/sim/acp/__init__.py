"""A stand-in for ACP agents."""
