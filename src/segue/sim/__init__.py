"""Stand-ins for vendors' tools and a place to try things out: for the demo, rehearsals and tests."""
