"""Tests of the part supabase."""
