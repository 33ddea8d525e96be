"""Escapes: agents that want something run, followed, overwritten, read or believed outside of the sandbox."""
