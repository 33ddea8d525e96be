"""Notifies people: on the terminal, on the desktop, by webhook and by email."""
