"""A deterministic agent that follows a script."""
