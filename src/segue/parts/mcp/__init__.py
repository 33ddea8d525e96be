"""Segue as an MCP server: other agents and editors start runs, watch them and read their proof."""
