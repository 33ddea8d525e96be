"""Commands that look at runs: status, logs, reports."""
