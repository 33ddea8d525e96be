"""Markdown plan files."""
