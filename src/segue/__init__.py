"""Segue runs a list of tasks with coding agents until each one is done and proven.

`from segue import …` is the public interface: see `segue/public.py` and `docs/reference/python.md`.
"""

from __future__ import annotations

__version__ = "0.2.0"

TYPE_CHECKING = (
    False  # type checkers take it for true; importing `typing` takes longer than all small programs need
)
if TYPE_CHECKING:
    from typing import Any

    from segue.public import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """Import the public interface when it is first used: the command line starts without it."""
    if name == "public" or (name.startswith("_") and name != "__all__"):
        raise AttributeError(f"module 'segue' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module("segue.public"), name)
