"""Both databases keep the promises of the Store and Journal sockets, and the check sees broken ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from segue.parts.conformance.store import check_store
from segue.ports import Observer
from segue.store import connect
from segue.store.journal import Journal
from segue.store.store import Store


@pytest.mark.quick("sqlite")
def test_the_store_keeps_its_promises(database: str) -> None:
    check_store(lambda: connect(database))


class Forgetful(Store):
    """Forgets signals that were sent before, and observers."""

    async def open(self, run_id: str, observers: Sequence[Observer] = ()) -> Journal:
        return await super().open(run_id, ())

    def send(self, run_id: str, topic: str, payload: dict[str, Any], signal_id: str | None = None) -> bool:
        return super().send(run_id, topic, payload)


def test_the_check_names_what_is_broken(tmp_path: Path) -> None:
    with pytest.raises(AssertionError) as caught:
        check_store(lambda: Forgetful(tmp_path / "segue.db"))
    assert "observers see each one: what is stored" in str(caught.value)
    assert "the same signal again" in str(caught.value)
    assert "Redo" not in str(caught.value)
