"""Try an agent out with the real account, and write a report that anybody may read."""
