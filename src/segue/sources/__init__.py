"""Sources of tasks."""
