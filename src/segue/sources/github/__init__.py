"""Issues on GitHub as tasks."""
