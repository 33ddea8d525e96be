"""A Postgres on which the row level security check can make its scratch databases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from psycopg.conninfo import make_conninfo

from segue.features.supabase.postgres import throwaway


@pytest.fixture(scope="session")
def rls_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """How to reach it as its superuser."""
    with throwaway(tmp_path_factory.mktemp("rls")) as server:
        yield make_conninfo(**server.parameters)  # type: ignore[arg-type]
