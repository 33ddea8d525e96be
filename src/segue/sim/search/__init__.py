"""A stand-in for web search services."""
