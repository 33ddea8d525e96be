"""Fixtures of the tests of agents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.cloud_place import KEY, CloudPlace, open_place


@pytest.fixture
def cloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CloudPlace]:
    """Cursor's cloud, and agents that talk to it."""
    monkeypatch.setenv("CURSOR_API_KEY", KEY)
    with open_place(tmp_path) as place:
        yield place
