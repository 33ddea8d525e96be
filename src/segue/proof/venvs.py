"""Find the virtual environments of a project that its tools keep in the user's home: Poetry, Hatch, Pipenv, …

Each of them has its own place, but all name the folder after the project.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from segue.system.files import read_start

_WITHIN = (".cache", ".local/share", ".virtualenvs", ".venvs", ".envs", "Library/Caches", "AppData/Local")
_DEEPEST = 6
_MOST_FOLDERS = 20_000
_NAME = re.compile(rb"^\s*name\s*=\s*[\"']([^\"']+)[\"']", re.M)


def find_environments(root: Path, home: Path | None = None) -> list[Path]:
    """Return the environments in the home that have the project's name, or note that they belong to it."""
    found = re.findall(_NAME, read_start(root / "pyproject.toml", 1024**2))
    names = {_normal(root.name), *(_normal(name.decode("utf-8", "replace")) for name in found)}
    places = (Path(os.path.realpath(home or Path.home())) / name for name in _WITHIN)
    return [one for place in places for one in _walk(place) if _belongs(one, place, names, root)]


def _walk(place: Path) -> Iterator[Path]:
    """Yield virtual environments below a folder, without looking into them or too deep."""
    pending, seen = deque([(str(place), 0)]), 0
    while pending and seen < _MOST_FOLDERS:
        folder, depth = pending.popleft()
        seen += 1
        if os.path.isfile(os.path.join(folder, "pyvenv.cfg")):  # noqa: PTH113, PTH118 - many of them
            yield Path(folder)
            continue
        try:
            inner = [entry.path for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
        except OSError:
            continue
        pending += [(path, depth + 1) for path in inner if depth < _DEEPEST]


def _belongs(place: Path, within: Path, names: set[str], root: Path) -> bool:
    if read_start(place / ".project").decode("utf-8", "replace").strip() == str(root):
        return True
    parts = [_normal(part) for part in place.relative_to(within).parts]
    return any(part == name or part.startswith(f"{name}-") for part in parts for name in names if name)


def _normal(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
