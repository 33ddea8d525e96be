"""Fixtures of the tests of agents."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.cloud_place import KEY, CloudPlace, open_place


@pytest.fixture
def cloud_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key for the cloud simulator."""
    monkeypatch.setenv("CURSOR_API_KEY", KEY)


@pytest.fixture
def cloud(tmp_path: Path, cloud_key: None) -> Iterator[CloudPlace]:
    """A cloud simulator and agents that talk to it."""
    with open_place(tmp_path) as place:
        yield place
