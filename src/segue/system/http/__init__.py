"""HTTP client and server."""
