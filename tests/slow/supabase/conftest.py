"""Fixtures for row level security."""

from tests.features.supabase.conftest import rls_server

__all__ = ["rls_server"]
