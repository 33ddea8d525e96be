"""Reviewers look at the work of an agent: stet, or any command whose output can be read."""
