"""Suites that check the promises of each socket, for parts of this package and of others."""
