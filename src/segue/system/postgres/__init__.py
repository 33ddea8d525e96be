"""A Postgres server for tests of row level security."""
