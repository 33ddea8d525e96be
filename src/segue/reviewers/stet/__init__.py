"""stet, a reviewer of the lines that a commit changed."""
