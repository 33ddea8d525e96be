"""Typed settings, and the layers they come from."""
