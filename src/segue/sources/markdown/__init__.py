"""Markdown files that list tasks: their lines, the shapes of tasks, and the marks that say what is done."""
