"""What a file's text says about Segue's settings: the one reading of it, for the loader and for the guard."""

from __future__ import annotations

from typing import Any

SHARED_FILE = "pyproject.toml"
"""The file that has settings of other tools beside Segue's, which are its table `tool.segue`."""
PROJECT_FILES = ("segue.toml", SHARED_FILE)
"""The names under which a project's settings are found; the first counts where a folder has both."""

LARGEST = 1024**2
"""Bytes that a file of settings may have."""


def parse_settings(name: str, data: bytes) -> dict[str, Any] | None:
    """Return the settings in a file of this name; None if it has no table for them.

    Raises ValueError where it is too large, or cannot be read as TOML.
    """
    if len(data) > LARGEST:
        raise ValueError(f"it is larger than {LARGEST // 1024**2} MiB")
    import tomllib  # commands that read no settings start without it

    try:
        found = tomllib.loads(data.decode("utf-8"))
    except RecursionError as error:
        raise ValueError(str(error)) from error
    if name != SHARED_FILE:
        return found
    tool = found.get("tool")
    own = tool.get("segue") if isinstance(tool, dict) else None
    return own if isinstance(own, dict) else None


def has_settings(data: bytes) -> bool:
    """Return whether a pyproject.toml has a table for Segue; of one that cannot be read, whether it may."""
    if b"segue" not in data and b"\\" not in data:  # no other spelling is possible: parsing takes longer
        return False
    try:
        return parse_settings(SHARED_FILE, data) is not None
    except ValueError:
        import re

        return re.search(rb"\btool[\s.\"'\]]+segue\b", data) is not None
