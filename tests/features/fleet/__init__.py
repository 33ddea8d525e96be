"""Tests of fleets: many machines that share one Postgres."""
