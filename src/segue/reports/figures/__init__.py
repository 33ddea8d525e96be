"""Figures of the reports: each draws the rows of one table."""
