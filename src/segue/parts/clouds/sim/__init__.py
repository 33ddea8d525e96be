"""Simulated cloud agents beside Cursor's: one engine works, and a file per vendor shows that."""
