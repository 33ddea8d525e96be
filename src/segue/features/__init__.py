"""Features with a folder each: the core runs without any of them, and imports none."""
