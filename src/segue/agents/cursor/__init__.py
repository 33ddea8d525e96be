"""Cursor CLI."""
