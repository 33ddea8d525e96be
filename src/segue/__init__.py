"""Segue carries a list of tasks through coding agents until each one is done and proven."""

__version__ = "0.1.0"
