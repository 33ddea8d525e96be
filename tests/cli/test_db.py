"""`segue db`: migrations for Supabase, pushes into Postgres, and runs whose database goes away."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.place import Place
from tests.store.cluster import Cluster, own_cluster


def test_a_push_without_a_target_or_of_an_unknown_run_is_refused(place: Place, postgres: str) -> None:
    assert "No Postgres database is configured" in place.segue("db", "push", code=2).stderr
    told = place.segue("db", "push", "--to", postgres, "--run", "nothing", code=2)
    assert "There is no run nothing" in told.stderr
    assert not place.database.exists(), "an empty database was made"
    nowhere = "postgresql://me:topsecret@127.0.0.1:1/db"
    told = place.segue("db", "push", "--to", nowhere, code=1)
    assert "cannot be reached" in told.stderr
    assert "topsecret" not in told.stderr


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with own_cluster() as cluster:
        yield cluster
