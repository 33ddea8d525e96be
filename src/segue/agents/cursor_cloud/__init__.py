"""Cursor's Cloud Agents API: both versions behind one small interface."""
