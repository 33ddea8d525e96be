"""What a program needs of places that are hidden otherwise: the environment or toolchain it belongs to."""

# Folders of somebody else cannot be looked into; pathlib would raise an error.
# ruff: noqa: PTH112, PTH113
from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from segue.system.files import read_start
from segue.system.programs import find_inside


def program_places(argv: Sequence[str], env: Mapping[str, str]) -> list[Path]:
    """Return the folders of the programs on PATH, and of those that the command names."""
    return list(dict.fromkeys(_places(argv, env)))


def named_places(argv: Sequence[str], env: Mapping[str, str], apart: Sequence[Path]) -> list[Path]:
    """Return what the command names, and what its variables name in temporary folders.

    A file is there with its folder, which may contain what it needs, such as modules; unless the folder is a
    temporary one or a home itself, or contains a place that is to be kept apart.
    """
    home = Path(os.path.realpath(Path.home()))
    wide = (*apart, home, *SHARED)
    words = [part for word in _words(argv) for part in (word, word.partition("=")[2])]
    named = [Path(word) for word in words if word.startswith("/")]
    for name, value in env.items():
        places = [Path(part) for part in value.split(os.pathsep)] if name != "PATH" else []
        near = [place for place in places if is_temporary(place) and not place.is_relative_to(home)]
        # A folder that is no search path is as likely one to write to, which the program has for itself.
        named += [place for place in near if name.endswith("PATH") or os.path.isfile(place)]
    found: dict[Path, None] = {}
    for place in named:
        if not _exists(place) or _contains_any(place, wide):
            continue
        if place.is_file() and not _contains_any(place.parent, wide):
            place = place.parent
        found |= dict.fromkeys((place, Path(os.path.realpath(place))))
    return list(found)


SHARED = tuple(Path(os.path.realpath(name)) for name in ("/tmp", "/var/tmp", "/dev/shm"))  # noqa: S108
"""Folders for everybody's temporary files; a program in a sandbox has its own instead."""


def is_temporary(place: Path) -> bool:
    """Return whether it is below a temporary folder of the machine."""
    return any(place != folder and place.is_relative_to(folder) for folder in SHARED)


def _contains_any(folder: Path, places: Iterable[Path]) -> bool:
    return any(place.is_relative_to(folder) for place in places)


def outermost(places: Iterable[Path]) -> list[Path]:
    """Return the places that are in none of the others, each once."""
    wanted = list(dict.fromkeys(places))
    return [one for one in wanted if not any(one != other and one.is_relative_to(other) for other in wanted)]


def _exists(place: Path) -> bool:
    try:
        return place.exists()
    except OSError:  # not a path at all
        return False


def _places(argv: Sequence[str], env: Mapping[str, str]) -> Iterator[Path]:
    for folder in env.get("PATH", "").split(os.pathsep):
        if folder.startswith("/"):
            yield from prefixes(Path(folder))
    for word in _words(argv):
        found = find_inside(word, env.get("PATH")) if word is argv[0] or word.startswith("/") else None
        for place in follow(Path(found)) if found is not None else ():
            yield from prefixes(place.parent)


def _words(argv: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command, and those of a line for a shell among them."""
    for word in argv:
        yield word
        if " " in word:
            with contextlib.suppress(ValueError):  # not every text with a space is such a line
                yield from shlex.split(word)


def follow(place: Path) -> Iterator[Path]:
    """Yield a file, every link on the way to what it is, and where that is."""
    yield place
    for _ in range(_MOST_LINKS):
        if not place.is_symlink():
            break
        place = place.parent / place.readlink()
        yield place
    yield Path(os.path.realpath(place))


_MOST_LINKS = 40


def prefixes(folder: Path) -> list[Path]:
    """Return what a folder of programs needs: itself, or the environment or toolchain it belongs to."""
    parent = folder.parent
    if "node_modules" in folder.parts:
        at = folder.parts.index("node_modules")
        return [Path(*folder.parts[: at + 1])]
    if parent.name == ".local":
        return [folder, parent / "lib"]  # the rest of it has keyrings and logins
    if folder.name != "bin" or parent in (Path("/"), Path.home()):
        return [folder]
    settings = parent / "pyvenv.cfg"
    if not os.path.isfile(settings):
        return [parent] if os.path.isdir(parent / "lib") else [folder]
    lines = read_start(settings).decode("utf-8", "replace").splitlines()
    homes = [line.partition("=")[2].strip() for line in lines if line.startswith("home")]
    return [parent, *(place for name in homes[:1] for place in prefixes(Path(os.path.realpath(name))))]
