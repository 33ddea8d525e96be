"""`segue demo`: simulated runs from start to end."""
