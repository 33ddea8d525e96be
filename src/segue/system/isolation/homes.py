"""What of a home is not for agents: measured at each launch, because tools come and log in.

Of dot files and of the folders for settings, only what is needed or plainly harmless is seen. A tool's folder
is harmless if it has only short texts, none of them private or with a secret; else the whole of it is hidden.
In places that builds need, only the secrets are: a file of them is hidden, of other settings their values.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from msgspec import Struct

from segue.system.isolation.credentials import (
    has_private_name,
    has_secrets,
    is_harmless,
    mask_file,
    read_text,
)
from segue.system.isolation.places import CACHES, NEEDED, SETTINGS, TOOLS

_FOLDERS = ("", ".config", ".local", ".local/share", ".local/state", ".cache")
"""Where each entry belongs to another tool."""
_XDG = {
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_STATE_HOME": ".local/state",
    "XDG_CACHE_HOME": ".cache",
}
_MOST_FILES = 200
"""Entries of a folder that are looked at; beyond that nobody can say that it is harmless."""
_MOST_SETTINGS = 100
_CODE = (
    ".py",
    ".sh",
    ".js",
    ".ts",
    ".rb",
    ".go",
    ".rs",
    ".java",
    ".c",
    ".h",
    ".pl",
    ".lua",
    ".zsh",
    ".vim",
    ".jar",
)


class PrivateParts(Struct, frozen=True):
    """What of a home is hidden, and which files are seen without the secrets in them."""

    hidden: tuple[Path, ...] = ()
    masked: tuple[tuple[Path, str], ...] = ()
    """Files with what is seen instead."""
    opened: tuple[Path, ...] = ()
    """What the user shows although it is hidden otherwise."""


def find_private(home: Path) -> PrivateParts:
    """Return the parts of a home that a program sees only if it is given them."""
    look = _Look(home)
    elsewhere = [
        (Path(os.environ[variable]), name) for variable, name in _XDG.items() if variable in os.environ
    ]
    for folder, name in [*((home / name, name) for name in _FOLDERS), *elsewhere]:
        for entry in _entries(folder):
            look.at_entry(entry, f"{name}/{entry.name}" if name else entry.name)
    return PrivateParts(tuple(look.hidden), tuple(look.masked.items()))


class _Look:
    """One look at a home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.by_mode = _umask() & 0o077 != 0o077
        self.needed = {*TOOLS, *CACHES, *NEEDED}
        self.around = {str(above) for name in self.needed for above in Path(name).parents} - {"."}
        self.hidden: dict[Path, None] = {}
        self.masked: dict[Path, str] = {}

    def at_entry(self, entry: os.DirEntry[str], name: str) -> None:
        """Look at what one tool has in the home."""
        if name in _FOLDERS:
            return
        if not entry.is_dir():
            self._at_file(Path(entry.path), name)
        elif name.startswith(".cache/"):
            for inner in _entries(Path(entry.path)):
                if (has_private_name(inner.name) and not inner.is_dir()) or _is_special(inner):
                    self._hide(Path(inner.path))
        elif name in self.needed or name in self.around:
            self._at_settings(Path(entry.path), name)
        elif name.startswith(".") and not self._is_harmless(entry.path):
            self._hide(Path(entry.path))

    def _at_file(self, path: Path, name: str) -> None:
        if name in SETTINGS or name.startswith(".gitconfig"):
            self._mask(path)
        elif has_private_name(path.name):
            self._hide(path)
        elif name.startswith("."):
            if not is_harmless(str(path), by_mode=self.by_mode):
                self._hide(path)
        elif (text := read_text(str(path))) and has_secrets(text):
            self._hide(path)

    def _at_settings(self, folder: Path, name: str) -> None:
        """Look at the settings of a tool that builds need: in its folder, and in those of that folder."""
        for entry in self._settings(folder, name, 0):
            path = Path(entry.path)
            if _is_special(entry) or has_private_name(entry.name):
                self._hide(path)
            else:
                self._mask(path)

    def _settings(self, folder: Path, name: str, depth: int) -> Iterator[os.DirEntry[str]]:
        for entry in _entries(folder, _MOST_SETTINGS):
            inner = f"{name}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if depth < 1 and inner not in self.needed:
                    yield from self._settings(Path(entry.path), inner, depth + 1)
            elif not entry.name.endswith(_CODE) and not os.access(entry.path, os.X_OK):
                yield entry

    def _mask(self, path: Path) -> None:
        if (shown := mask_file(str(path))) is not None:
            self.masked[Path(os.path.realpath(path))] = shown

    def _hide(self, path: Path) -> None:
        real = Path(os.path.realpath(path))
        if real != self.home and not self.home.is_relative_to(real):
            self.hidden[real] = None

    def _is_harmless(self, folder: str) -> bool:
        waiting, seen = deque([folder]), 0
        while waiting:
            for entry in _entries(Path(waiting.popleft()), _MOST_FILES):
                seen += 1
                if seen >= _MOST_FILES or has_private_name(entry.name):
                    return False
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif not is_harmless(entry.path, by_mode=self.by_mode):
                    return False
        return True


def own_places(home: Path, argv: Sequence[str], program: Path) -> list[Path]:
    """Return what is a program's own: by its name, and tools' folders in which its command names a file."""
    named = [home / folder / program.name for folder in _FOLDERS[1:]]
    found = [home / f".{program.name}", *named]
    for word in argv:
        place = Path(word)
        if place.is_relative_to(home) and place.is_file():
            parts = place.relative_to(home).parts
            depth = next(n for n in (1, 2, 3) if "/".join(parts[:n]) not in _FOLDERS)
            found += [home.joinpath(*parts[:depth])] if len(parts) > depth else []
    return [place for place in found if place.is_dir()]


def _entries(folder: Path, most: int = 2000) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            return list(islice(found, most))
    except OSError:
        return []


def _is_special(entry: os.DirEntry[str]) -> bool:
    try:
        mode = entry.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _umask() -> int:
    """Return the mode that new files do not get: if it is everything for others, modes say nothing."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0o022
    return next((int(line.split()[1], 8) for line in lines if line.startswith("Umask:")), 0o022)
