"""Settle what became of old tests that a task changed, moved or removed."""
