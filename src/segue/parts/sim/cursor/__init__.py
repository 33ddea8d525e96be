"""A stand-in for the Cursor CLI."""
