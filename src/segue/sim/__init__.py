"""Stand-ins for vendors' tools and services: for the demo, rehearsals and tests."""
