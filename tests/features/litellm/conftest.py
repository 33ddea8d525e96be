"""A setting to call models in, for every test of this folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.features.litellm.place import DROPPED, Asking, environment, prepare


@pytest.fixture
def asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Asking]:
    """This process calls models; what it started has stopped afterwards."""
    from segue.features.litellm import library

    prepare(tmp_path)
    for name in [name for name in os.environ if name.startswith(DROPPED)]:
        monkeypatch.delenv(name)
    for name, value in environment(tmp_path).items():
        monkeypatch.setenv(name, value)
    yield Asking(tmp_path)
    library.close()
