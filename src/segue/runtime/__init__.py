"""From settings to a finished run: plan, open, session."""
