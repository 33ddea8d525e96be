"""Who does the work: one file per agent, and what local processes share."""
