"""GitHub: its API, and who may use it."""
