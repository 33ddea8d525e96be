"""Replay: decide again about recorded attempts, under another judge or policy, without launching agents."""
