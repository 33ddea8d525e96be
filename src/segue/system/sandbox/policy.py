"""What a program in the sandbox may see and change, as data that each enforcer applies as far as it can."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import Struct

from segue.system.files import read_start
from segue.system.programs import find_inside
from segue.system.sandbox.places import CACHES, CREDENTIALS, PLAIN_SETTINGS, SOCKETS, TEMPORARY, TOOLS

GIT_FOLDER = Path(os.path.realpath(TEMPORARY[0])) / "segue-git"
"""Where git's folder is seen in a work tree that is seen in the place of another."""


class Strength(StrEnum):
    """How much of the user's home a program sees."""

    STANDARD = "standard"
    STRICT = "strict"


class Places(Struct, frozen=True):
    """Folders and files that somebody needs, beside the work tree."""

    write: tuple[Path, ...] = ()
    read: tuple[Path, ...] = ()


class SandboxPolicy(Struct, frozen=True):
    """What one program may see and change. All paths are absolute and real."""

    root: Path
    """The work tree."""
    scratch: Path
    """A folder of this launch: its temporary files, and its home if that is hidden."""
    strength: Strength = Strength.STANDARD
    write: tuple[Path, ...] = ()
    """Places that it may change; those that are missing do not count."""
    read: tuple[Path, ...] = ()
    """Places that it sees although they are in something hidden."""
    hide: tuple[Path, ...] = ()
    guard: tuple[Path, ...] = ()
    """Places inside of writable ones that stay as they are."""
    network: bool = True
    edits: bool = True
    """Whether it may change the work tree."""
    home: Path = Path("/nonexistent")
    seen_at: Path | None = None
    """The user's work tree, in whose place a lane is seen too; None: the work tree is seen where it is."""
    shared: tuple[str, ...] = ()
    """What a lane has of the user's work tree, read-only: dependencies, local settings."""

    @property
    def is_strict(self) -> bool:
        """Whether the user's home is hidden."""
        return self.strength is Strength.STRICT


class HiddenParts(Struct, frozen=True):
    """What neither agents nor checks see, and what the user has opened nevertheless."""

    hidden: tuple[Path, ...] = ()
    opened: tuple[Path, ...] = ()


def make_policy(
    root: Path,
    scratch: Path,
    strength: Strength,
    given: Places,
    own: Places,
    hide: Sequence[Path],
    *,
    caches: bool,
    network: bool,
    edits: bool,
) -> SandboxPolicy:
    """Return the policy for a program: `given` is the user's choice, `own` is what the program needs."""
    home = Path(os.path.realpath(Path.home()))
    root = Path(os.path.realpath(root))
    built = list(_caches(home)) if caches else []
    for place in own.write:
        _make(place)
    inside = (root, *built, *own.write, *expand_places(root, given.write))
    writable, readable = find_opened(root, given.write, inside), find_opened(root, given.read, inside)
    own_write = find_opened(root, own.write, inside)
    shown = [*readable, *own.read]
    if strength is Strength.STRICT:
        shown += [home / name for name in (*TOOLS, *PLAIN_SETTINGS)]
    write = _real([*built, *own_write, *writable])
    private = find_hidden(root, hide, [*own_write, *writable, *readable, *own.read])
    return SandboxPolicy(
        root=root,
        scratch=scratch,
        strength=strength,
        write=write,
        read=_real(shown),
        hide=(*private.hidden, *_real([Path(SOCKETS)])),
        guard=(
            *(() if root / ".git" in writable else git_places(root)),
            *_own_installation((root, *write), writable),
        ),
        network=network,
        edits=edits,
        home=home,
    )


def find_hidden(root: Path, hide: Iterable[Path], opened: Iterable[Path]) -> HiddenParts:
    """Return what neither agents nor checks on a work tree see, unless exactly that was opened for them."""
    home = Path(os.path.realpath(Path.home()))
    # `home / name` is the name itself where it starts with a slash. People work on their settings too.
    listed = [place for name in CREDENTIALS if not root.is_relative_to(place := home / name)]
    shown = _real(opened)
    return HiddenParts(tuple(place for place in _real([*listed, *hide]) if place not in shown), shown)


def expand_places(root: Path, places: Iterable[Path]) -> list[Path]:
    """Return the places that the user has named; relative ones are in the work tree."""
    return [root / Path(os.path.expandvars(place)).expanduser() for place in places]


def find_opened(root: Path, places: Iterable[Path], writable: Iterable[Path] = ()) -> tuple[Path, ...]:
    """Return the places that the user has opened, without those that agents made lead elsewhere.

    A link in what they can write would open for themselves what is hidden.
    """
    around = [root, *writable]
    return tuple(place for place in expand_places(root, places) if not _is_led_out(place, around))


def _is_led_out(place: Path, writable: Iterable[Path]) -> bool:
    """Return whether a place in one of these leads out of it."""
    plain, real = Path(os.path.abspath(place)), Path(os.path.realpath(place))  # noqa: PTH100 - keeps links
    return any(
        plain != folder and plain.is_relative_to(folder) and not real.is_relative_to(os.path.realpath(folder))
        for folder in writable
    )


def _real(places: Iterable[Path]) -> tuple[Path, ...]:
    """Return the places that exist, without links."""
    existing = (Path(os.path.realpath(place)) for place in places if os.path.lexists(place))
    return tuple(dict.fromkeys(place for place in existing if os.path.lexists(place)))


def _caches(home: Path) -> Iterator[Path]:
    """Yield the caches of builds; those of installed tools are made, as the tools would do themselves."""
    for name, program in CACHES.items():
        if not program or find_inside(program):
            _make(home / name)
        yield home / name


def _make(place: Path) -> None:
    """Make a folder that was not used yet, as its program would; what has a suffix is a file."""
    if not place.suffix:
        with contextlib.suppress(OSError):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)


def _own_installation(writable: Iterable[Path], opened: Iterable[Path]) -> list[Path]:
    """Return what Segue runs from, if agents could write it and the user has not opened it."""
    package = Path(__file__).parents[3]
    installed = any(package.glob("segue*.dist-info"))
    places = [Path(sys.prefix), *([package] if installed else [])]
    kept = [Path(os.path.realpath(place)) for place in places]
    return [
        place
        for place in kept
        if any(place != folder and place.is_relative_to(folder) for folder in writable)
        and not any(Path(os.path.realpath(other)).is_relative_to(place) for other in opened)
    ]


def git_places(root: Path) -> Iterator[Path]:
    """Yield git's folder, and for a work tree beside the main one both folders that it uses."""
    entry = root / ".git"
    if not entry.exists():
        return
    yield entry
    text = "" if entry.is_dir() and not entry.is_symlink() else os.fsdecode(read_start(entry))
    if text.startswith("gitdir: "):
        folder = Path(os.path.realpath(root / text[8:].strip()))
        yield folder
        if named := os.fsdecode(read_start(folder / "commondir")).strip():
            yield Path(os.path.realpath(folder / named))


def git_link(tree: Path) -> tuple[Path, str]:
    """Return git's folder of a work tree beside the main one, and a `.git` for it.

    It names the folder where it is seen once the tree covers the main one: at `GIT_FOLDER`.
    """
    own, common = list(git_places(tree))[1:3]
    return common, f"gitdir: {GIT_FOLDER / own.relative_to(common)}\n"
