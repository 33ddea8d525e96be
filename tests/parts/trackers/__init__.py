"""Tests of the part trackers."""
