"""A stand-in for GitHub: its REST and GraphQL APIs on loopback."""
