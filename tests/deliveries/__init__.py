"""Tests of deliveries."""
