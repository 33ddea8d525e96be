"""Who decides whether a task is done: one file per judge, and what they share."""
