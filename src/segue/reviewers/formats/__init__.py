"""Report formats that reviewers understand."""
