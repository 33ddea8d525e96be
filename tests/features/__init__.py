"""Tests of the parts, a folder each."""
