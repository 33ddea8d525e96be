"""Tests of the part clouds."""
