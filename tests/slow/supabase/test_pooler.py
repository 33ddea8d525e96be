"""The store works behind a pooler that gives each transaction another connection, as Supabase's does."""

from __future__ import annotations

from segue.store import connect
from tests.conformance.store import check_store
from tests.store.pooler import pooler_of


def test_the_store_keeps_its_promises_behind_a_transaction_pooler(postgres: str) -> None:
    with pooler_of(postgres) as (pooler, url):
        check_store(lambda: connect(url))
        assert len(pooler.statements) > 50
        assert not any(b"LISTEN" in statement for statement in pooler.statements)
