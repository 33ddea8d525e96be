"""What a lane has of its own, a name and ports, and what it shares with the user's work tree."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from segue.system.files import private_folder
from segue.system.git.folders import find_place
from segue.system.git.outside import ask_git

LANE_NAME = re.compile(r"(?P<run>.+)-lane-(?P<number>[1-9][0-9]{0,3})")
"""The name of a lane's folder."""
_FIRST_PORT, _PORTS, _RANGES = 20_000, 20, 600
"""All ports of lanes are below those that systems give to outgoing connections."""
_DEPENDENCIES = frozenset(
    (
        *("node_modules", ".venv", "venv", ".virtualenv", "vendor", "bower_components", "Pods"),
        *("elm-stuff", ".yarn"),
    )
)
_SETTINGS = re.compile(r"\.env(rc|\..+)?|\.npmrc|.*\.local(\..+)?|local\.properties|local_settings\.py")
_MOST_SHARED = 60
"""Each of them costs a mount."""


def lane_variables(folder: Path) -> dict[str, str]:
    """Return what everything that runs in a lane has in its environment; nothing if it is no lane.

    `SEGUE_LANE` is its number, `SEGUE_PORT` the first of 20 ports that no other lane of the run has.
    """
    found = LANE_NAME.fullmatch(folder.name)
    if found is None:
        return {}
    place = (zlib.crc32(found["run"].encode()) + int(found["number"])) % _RANGES
    return {
        "SEGUE_LANE": found["number"],
        "SEGUE_PORT": str(_FIRST_PORT + _PORTS * place),
        "TMPDIR": str(private_folder(folder.with_name(f"{folder.name}.tmp"))),
    }


def top_of(folder: Path) -> Path:
    """Return the work tree that contains the folder; the folder itself if there is none."""
    real = Path(os.path.realpath(folder))
    return next((place for place in (real, *real.parents) if os.path.lexists(place / ".git")), real)


def is_beside(tree: Path, state_dir: Path) -> bool:
    """Return whether Segue has made this work tree, beside the user's."""
    return os.path.realpath(tree.parent) == os.path.realpath(state_dir / "worktrees")


def is_dependency(path: Path) -> bool:
    """Return whether a folder has what was installed, not what somebody wrote."""
    return path.is_dir() and (path.name in _DEPENDENCIES or (path / "pyvenv.cfg").is_file())


def has_content(path: Path) -> bool:
    """Return whether there is something; not a link, nor an empty file or folder, which mounts leave."""
    try:
        if path.is_symlink() or not path.is_dir():
            return path.is_file() and not path.is_symlink() and path.stat().st_size > 0
        return any(True for _ in path.iterdir())
    except OSError:
        return False


def list_shared(home: Path, tree: Path, wanted: Sequence[str] = ()) -> list[str]:
    """Return what another work tree of a repository lacks and the user's has: dependencies, local settings.

    What the tree has itself is its own. `wanted` are globs of more that is to be shared.
    """
    found = [*_installed(home), *match(home, wanted)]
    lacking = [path for path in dict.fromkeys(found) if _fits(tree, path, (home / path).is_dir())]
    files = [path for path in lacking if not (home / path).is_dir()]
    # Where git does not ignore it, a file that marks the place would look like work.
    ignored = list_ignored(tree, files)
    return [path for path in lacking if path not in files or path in ignored][:_MOST_SHARED]


def list_ignored(tree: Path, paths: Sequence[str]) -> tuple[str, ...]:
    """Return which of these paths git ignores in a work tree; those of folders end with a slash."""
    return tuple(_ask(tree, "check-ignore", "--", *paths).splitlines()) if paths else ()


def match(home: Path, globs: Sequence[str]) -> Iterator[str]:
    """Yield what fits the globs: nothing outside of the work tree, and nothing that leads there."""
    for glob in globs:
        if glob.startswith("/") or ".." in Path(glob).parts:
            continue
        for place in sorted(home.glob(glob)):
            inside = Path(os.path.realpath(place)).is_relative_to(os.path.realpath(home))
            if inside and not place.is_symlink() and ".git" not in place.relative_to(home).parts:
                yield str(place.relative_to(home))


def _installed(home: Path) -> Iterator[str]:
    said = _ask(home, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
    for name in filter(None, said.split("\0")):
        place = home / name.rstrip("/")
        if place.is_symlink():
            continue
        if is_dependency(place) or (place.is_file() and _SETTINGS.fullmatch(place.name)):
            yield name.rstrip("/")


def _fits(tree: Path, path: str, is_folder: bool) -> bool:
    """Return whether it can be put into the tree: nothing is there yet, and no file instead of a folder."""
    place = tree / path
    if place.is_symlink() or has_content(place) or (place.exists() and place.is_dir() is not is_folder):
        return False
    parents = [tree / folder for folder in list(Path(path).parents)[:-1]]
    return all(folder.is_dir() and not folder.is_symlink() for folder in parents)


def _ask(folder: Path, *arguments: str) -> str:
    place = find_place(folder)
    said = ask_git(place, "-c", "core.quotePath=false", *arguments) if place is not None else b""
    return said.decode("utf-8", "surrogateescape")
