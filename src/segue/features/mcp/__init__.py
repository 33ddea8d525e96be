"""The server for other agents and editors, in the Model Context Protocol: its tools and resources."""
