"""The page to look at: runs, steps, tasks and reports in a browser, on loopback, behind a token."""
