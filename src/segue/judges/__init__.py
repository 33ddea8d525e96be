"""Judges decide whether a task is done: one file each, and what they share."""
