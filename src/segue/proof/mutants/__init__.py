"""Mutants: changed code broken in small ways, to see whether the tests that prove a change notice."""
