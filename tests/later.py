"""Modules that take long to import: every test process reads every file of tests, and few need these."""

from __future__ import annotations

import importlib
from typing import Any


class Later:
    """A module that is imported when it is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # pytest looks whether it is a test
            raise AttributeError(name)
        return getattr(importlib.import_module(self._name), name)
