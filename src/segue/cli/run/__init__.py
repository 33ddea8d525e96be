"""Commands that work: run, resume, stop, decide, check, compare."""
