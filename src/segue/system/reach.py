"""What agents can write, measured: places are told by what they are, not by how they are spelled."""

# Every command begins with this, and pathlib would cost start-up time.
# ruff: noqa: PTH100, PTH109, PTH112, PTH113, PTH115, PTH116, PTH117, PTH118, PTH120, PTH206
from __future__ import annotations

import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_LOADED = ("LD_", "DYLD_")
"""How variables begin that name what the system loads into every program."""
_MOST_LINKS = 40


class Reach:
    """Places that agents can write; told by what they are, not by how they are spelled."""

    def __init__(self, places: Iterable[str | os.PathLike[str]]) -> None:
        self._places = {found for place in places if (found := _identify(place))}
        self._cut: dict[tuple[str, str], str] = {}
        self._found: dict[tuple[str, str], str] = {}

    def has(self, path: str | os.PathLike[str]) -> bool:
        """Return whether an agent, or another user, can decide what is found at a path.

        Every folder and link on the way counts. What the user may not write, no agent of the user can.
        """
        if sys.platform == "win32":
            return any(_identify(place) in self._places for place in _above(path))
        for place, found, is_given, is_last in self._walk(path):
            if found is None:
                return True  # links without an end
            if not stat.S_ISLNK(found.st_mode) and (
                (is_given and _may_write(place, found)) or _is_shared(found, is_last=is_last)
            ):
                return True
        return False

    def find_link(self, path: str | os.PathLike[str]) -> str | None:
        """Return the first link on the way to a path that agents can make; None if no such link decides."""
        if sys.platform == "win32":
            return None  # making a link needs a right there that agents do not have
        for place, found, is_given, _ in self._walk(path):
            if found is None or (is_given and stat.S_ISLNK(found.st_mode)):
                return place
        return None

    def _walk(self, path: str | os.PathLike[str]) -> Iterator[tuple[str, os.stat_result | None, bool, bool]]:
        """Yield what is on the way to a path, links included: where and what it is (None: too many links).

        Also whether it is in a place that agents can write, and whether it is the last.
        """
        # Not normalised: what `..` means is known once the links before it are followed.
        words = _words(path if os.path.isabs(path) else os.path.join(here(), path))
        way = [(os.sep, _identify(os.sep) in self._places)]
        links = 0
        while words:
            name = words.pop()
            if name == "..":
                way = way[:-1] or way
                continue
            folder, is_given = way[-1]
            place = os.path.join(folder, name)
            try:
                found = os.lstat(place)
            except OSError:
                return  # nobody but the owner of the folders above can make it
            if stat.S_ISLNK(found.st_mode):
                links += 1
                yield place, found if links <= _MOST_LINKS else None, is_given, not words
                target = os.readlink(place)
                words += _words(target)
                way = way[:1] if target.startswith(os.sep) else way
                continue
            is_given = is_given or (found.st_dev, found.st_ino) in self._places
            yield place, found, is_given, not words
            way.append((place, is_given))

    def cut(self, path: str) -> str:
        """Return a search path without relative entries and those that agents can write."""
        kept = (part for part in path.split(os.pathsep) if os.path.isabs(part) and not self.has(part))
        return os.pathsep.join(kept)

    def cut_variable(self, name: str, value: str) -> str:
        """Return a variable without what leads to programs that agents can write; empty: leave it out."""
        if (name, value) not in self._cut:
            if name.upper().endswith("PATH") or name.startswith(_LOADED):
                self._cut[name, value] = self.cut(value)
            else:
                self._cut[name, value] = "" if self._names_program(value) else value
        return self._cut[name, value]

    def _names_program(self, value: str) -> bool:
        """Return whether the first word is a program that agents can write, or one that they could make."""
        if "/" not in value and os.sep not in value:
            return False
        whole = os.path.join(here(), value)
        folder = whole if os.path.isdir(whole) else os.path.dirname(whole)
        if len(folder.split()) > 1 and os.path.isdir(folder) and not self.has(folder):
            return False  # no program and its arguments, but a place in a folder with a space in its name
        quote = value[0] if value[0] in "'\"" else ""
        word = value[1:].partition(quote)[0] if quote else value.split(maxsplit=1)[0]
        place = os.path.join(here(), word)
        if os.path.isdir(place) or not self.has(place if os.path.lexists(place) else os.path.dirname(place)):
            return False
        is_path = word.startswith(("/", "./", "../"))
        return os.access(place, os.X_OK) or (is_path and not os.path.lexists(place))

    def find(self, name: str, path: str) -> str | None:
        """Return the first program of a name on a search path that agents cannot write."""
        if (name, path) not in self._found:
            places = (place for folder in self.cut(path).split(os.pathsep) for place in _spell(folder, name))
            found = next((place for place in places if _can_start(place) and not self.has(place)), None)
            if found is None:
                return None
            self._found[name, path] = found
        return self._found[name, path]


def _spell(folder: str, name: str) -> list[str]:
    """Return the files that a program may be; Windows leaves out how their names end."""
    if os.name != "nt":
        return [os.path.join(folder, name)] if folder else []
    endings = os.environ.get("PATHEXT", ".COM;.EXE;.BAT;.CMD").lower().split(";")
    whole = name.lower().endswith(tuple(endings))
    return [os.path.join(folder, name + ending) for ending in ([""] if whole else endings)] if folder else []


def _can_start(place: str) -> bool:
    return os.path.isfile(place) and os.access(place, os.X_OK)


def _identify(place: str | os.PathLike[str]) -> tuple[int, int] | None:
    try:
        found = os.stat(place)
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


def _words(path: str | os.PathLike[str]) -> list[str]:
    """Return the names in a path, the last one first."""
    return [word for word in reversed(os.fspath(path).split(os.sep)) if word not in ("", os.curdir)]


def here() -> str:
    """Return the current folder; the root if it was deleted."""
    try:
        return os.getcwd()
    except OSError:
        return os.sep


def _above(path: str | os.PathLike[str]) -> set[str]:
    """Return a path and the folders above it, as it is written and without links."""
    found: set[str] = set()
    for place in (os.path.abspath(path), os.path.realpath(path)):
        while place not in found:
            found.add(place)
            place = os.path.dirname(place)
    return found


def _may_write(place: str, found: os.stat_result) -> bool:
    is_own = sys.platform != "win32" and found.st_uid == os.geteuid()
    return is_own or os.access(place, os.W_OK)


def _is_shared(found: os.stat_result, *, is_last: bool) -> bool:
    """Return whether everybody may write it; in a temporary folder everybody may only add something."""
    return bool(found.st_mode & stat.S_IWOTH) and (is_last or not found.st_mode & stat.S_ISVTX)


def tree_around(folder: str | os.PathLike[str]) -> str | None:
    """Return the work tree that contains a folder; None if there is none."""
    place = os.path.realpath(folder)
    while not os.path.lexists(os.path.join(place, ".git")):
        if place == (place := os.path.dirname(place)):
            return None
    return place


def cut_variables(env: Mapping[str, str], reach: Reach) -> dict[str, str]:
    """Return an environment without what leads to programs that agents can write."""
    found = (
        # Segue's own settings are no programs: a folder for its state may be made in the work tree.
        (name, value, reach.cut_variable(name, value) if value and not name.startswith("SEGUE_") else value)
        for name, value in env.items()
    )
    return {name: kept for name, value, kept in found if kept or not value}
