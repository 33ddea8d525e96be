"""The sandbox around agents and checks: a policy as data, and one file for each means that enforces it."""
