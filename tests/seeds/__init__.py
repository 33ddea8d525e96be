"""The users' five documents: one file each, tests named after the requirement they show."""
