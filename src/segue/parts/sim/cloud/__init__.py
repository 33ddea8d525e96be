"""A stand-in for Cursor's Cloud Agents API, v0 and v1, whose agents push real commits."""
