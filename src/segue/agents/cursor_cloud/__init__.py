"""Cursor's Cloud Agents API: two generations of it behind one small interface."""
