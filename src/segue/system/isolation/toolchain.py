"""What a program needs of places that are hidden otherwise: the environment or toolchain it belongs to."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path


def program_places(argv: Sequence[str], env: Mapping[str, str]) -> list[Path]:
    """Return the folders of the programs on PATH, and what the command names: programs and files."""
    named = (Path(word) for word in argv[1:] if word.startswith("/"))
    return list(dict.fromkeys([*_places(argv, env), *(place for place in named if _exists(place))]))


def _exists(place: Path) -> bool:
    try:
        return place.exists()
    except OSError:  # not a path at all
        return False


def _places(argv: Sequence[str], env: Mapping[str, str]) -> Iterator[Path]:
    for folder in env.get("PATH", "").split(os.pathsep):
        if folder.startswith("/"):
            yield from prefixes(Path(folder))
    for word in argv:
        found = shutil.which(word, path=env.get("PATH")) if word is argv[0] or word.startswith("/") else None
        if found is not None:
            for place in (Path(found), Path(os.path.realpath(found))):
                yield from prefixes(place.parent)


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
    if not settings.is_file():
        return [parent] if (parent / "lib").is_dir() else [folder]
    lines = settings.read_text("utf-8", "replace").splitlines()
    homes = [line.partition("=")[2].strip() for line in lines if line.startswith("home")]
    return [parent, *(place for name in homes[:1] for place in prefixes(Path(os.path.realpath(name))))]
