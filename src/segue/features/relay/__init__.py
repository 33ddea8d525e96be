"""Runs allowed actions on the user's machine for a bridge that has a token."""
