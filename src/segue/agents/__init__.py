"""The agents that do the work: a file or folder each, and what local programs have in common."""
