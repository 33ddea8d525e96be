"""Benchmarks: what Segue costs, beside yardsticks measured in the same run."""
