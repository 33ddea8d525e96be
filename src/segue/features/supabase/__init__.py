"""Supabase: the check of a project's row level security, and Segue's dataset as migrations of a project."""
