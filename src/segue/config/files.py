"""Finds and reads the configuration files: the user's own, and the one of a project."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from msgspec import Struct

from segue.domain.errors import UsageError
from segue.domain.options import LARGEST, SHARED_FILE, has_settings, parse_settings
from segue.system.reading import UnsafeFile, explain_unreadable, read_file, work_tree


class FoundFile(Struct, frozen=True):
    """The configuration file of a project, and the files that were passed over because others own them."""

    path: Path | None = None
    foreign: tuple[Path, ...] = ()
    """Files of other users, above the project: they do not count."""
    refused: Path | None = None
    """A file of another user in the project itself: nothing is run with or without it."""


def user_file() -> Path:
    """Return the file for settings that apply to every project."""
    import platformdirs

    try:
        return platformdirs.user_config_path("segue") / "config.toml"
    except RuntimeError as error:  # neither HOME nor an entry of the user
        raise UsageError(
            f"There is no home folder: {error}.", hint="Set HOME to one of your folders."
        ) from None


def find_project_file(start: Path) -> FoundFile:
    """Find the nearest `segue.toml`, or `pyproject.toml` with a `[tool.segue]` table, at `start` or above.

    Files of other users never count: settings name programs to run, and in a shared folder such as /tmp
    somebody else may have put one.
    """
    root = work_tree(start)
    foreign: list[Path] = []
    for folder in (start, *start.parents):
        found = _find_in(folder)
        if found is None:
            continue
        if not is_foreign(found):
            return FoundFile(found, tuple(foreign))
        if folder.is_relative_to(root):
            return FoundFile(None, tuple(foreign), found)
        foreign.append(found)
    return FoundFile(None, tuple(foreign))


def is_foreign(path: Path) -> bool:
    """Return whether a file belongs to somebody else than this user or root."""
    return hasattr(os, "getuid") and path.stat().st_uid not in (os.getuid(), 0)


def is_inside(path: Path, start: Path) -> bool:
    """Return whether a file is in the work tree around a folder, as it is written or as its links lead."""
    root = work_tree(start)
    real = Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))
    return real or path.absolute().is_relative_to(root)


def _find_in(folder: Path) -> Path | None:
    settings = folder / "segue.toml"
    if settings.is_file():
        return settings
    if settings.is_dir():
        raise UsageError(
            f"{settings} is a folder, not a file.", hint="Rename it: Segue reads its settings from this name"
        )
    pyproject = folder / SHARED_FILE
    try:
        data = read_file(pyproject, work_tree(folder), LARGEST)
    except (OSError, UnsafeFile):
        return None
    return pyproject if has_settings(data) else None


def read_toml(path: Path, inside: Path | None = None) -> dict[str, Any]:
    """Return the settings that a configuration file contains."""
    try:
        return parse_settings(path.name, read_file(path, inside, LARGEST)) or {}
    except (OSError, ValueError) as error:
        hint = 'Text needs quotes in TOML: agent = "claude"; `segue init --dry-run` prints an example'
        raise UsageError(
            f"The configuration file {explain_unreadable(path, error)}",
            kept="Nothing was started.",
            hint="Save it as UTF-8" if isinstance(error, UnicodeDecodeError) else hint,
        ) from error
