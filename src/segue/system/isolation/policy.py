"""What a program in the sandbox may see and change, as data that each means enforces as far as it can."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import islice
from pathlib import Path

from msgspec import Struct

from segue.system.files import read_start
from segue.system.isolation.homes import PrivateParts, find_private
from segue.system.isolation.places import (
    CACHES,
    HIDDEN_TEMPORARY,
    PLAIN_SETTINGS,
    SECRETS,
    SHARED,
    SOCKETS,
    TOOLS,
)
from segue.system.programs import find_inside, own_bytecode, own_prefix, own_search, own_source, reach

_MOST_SHOWN = 60
"""Entries of the machine's temporary folder that stay visible; each costs a mount."""
_CHOSEN_BY_PYTHON = re.compile(r"tmp[a-z0-9_]{8}")
_MOST_LOOKED_AT = 500
TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - replaced by folders of the launch's own


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
    masked: tuple[tuple[Path, str], ...] = ()
    """Files of settings with what is seen instead of them, because they have secrets."""
    guard: tuple[Path, ...] = ()
    """Places inside of the work tree that stay as they are."""
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
    writable, readable = find_opened(root, given.write), find_opened(root, given.read)
    own = Places(_own_ways(own.write), own.read) if not home.is_relative_to(root) else own
    built = _caches(home) if caches else ()
    shown = [*readable, *own.read]
    if strength is Strength.STRICT:
        shown += [home / name for name in (*TOOLS, *PLAIN_SETTINGS)]
    for place in own.write:
        _make(place)
    private = find_hidden(root, hide, [*own.write, *writable, *readable, *own.read])
    return SandboxPolicy(
        root=root,
        scratch=scratch,
        strength=strength,
        write=_real([*built, *own.write, *writable]),
        read=_real(shown),
        hide=(*private.hidden, *_real([*map(Path, SOCKETS), *_system_sockets(root, home)])),
        masked=private.masked,
        guard=() if _opens_git(writable, root) else tuple(git_places(root)),
        network=network,
        edits=edits,
        home=home,
    )


def find_hidden(root: Path, hide: Iterable[Path], opened: Iterable[Path]) -> PrivateParts:
    """Return what neither agents nor checks on a work tree see, unless exactly that was opened for them."""
    home = Path(os.path.realpath(Path.home()))
    secrets = (Path(name) if name.startswith("/") else home / name for name in SECRETS)
    private, shown = find_private(home), _real(opened)
    hidden = _real([*secrets, *hide, *_outside(root, private.hidden)])
    return PrivateParts(
        tuple(place for place in hidden if place not in shown),
        tuple(one for one in private.masked if one[0] not in shown and not one[0].is_relative_to(root)),
        shown,
    )


def expand_places(root: Path, places: Iterable[Path]) -> list[Path]:
    """Return the places that the user has named; relative ones are in the work tree."""
    return [root / Path(os.path.expandvars(place)).expanduser() for place in places]


def find_opened(root: Path, places: Iterable[Path]) -> tuple[Path, ...]:
    """Return the places that the user has opened, without those that agents made lead elsewhere."""
    return _own_ways(expand_places(root, places))


def _own_ways(places: Iterable[Path]) -> tuple[Path, ...]:
    """Leave out what a link decides that agents can make: they would open for themselves what is hidden."""
    return tuple(place for place in places if reach().find_link(place) is None)


def _real(places: Iterable[Path]) -> tuple[Path, ...]:
    """Return the places that exist, without links."""
    found = (Path(os.path.realpath(place)) for place in places if os.path.lexists(place))
    return tuple(dict.fromkeys(place for place in found if os.path.lexists(place)))


def _outside(root: Path, hidden: Iterable[Path]) -> list[Path]:
    """Leave out a tool's folder that the work tree is in: people work on their settings too."""
    return [place for place in hidden if not root.is_relative_to(place)]


def _system_sockets(*own: Path) -> Iterator[Path]:
    """Yield the sockets of services wherever they are, but for those in the work tree and the home."""
    for place in bound_sockets():
        if not any(place.is_relative_to(one) for one in (*own, *SHARED)) and os.access(place, os.W_OK):
            yield place


def _caches(home: Path) -> Iterator[Path]:
    """Yield the caches of builds; those of installed tools are made, as the tools would do themselves."""
    for name, program in CACHES.items():
        place = home / name
        if not program or find_inside(program):
            _make(place)
        yield place


def _make(place: Path) -> None:
    """Make a folder that was not used yet, as its program would; what has a suffix is a file."""
    if not place.suffix:
        with contextlib.suppress(OSError):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)


def _opens_git(writable: Iterable[Path], root: Path) -> bool:
    return any(place == root / ".git" for place in writable)


def git_places(root: Path) -> Iterator[Path]:
    """Yield git's folder, and for a work tree beside the main one both folders that it uses."""
    entry = root / ".git"
    if entry.is_dir() and not entry.is_symlink():
        yield entry
    elif entry.exists():
        yield entry
        text = os.fsdecode(read_start(entry))
        if text.startswith("gitdir: "):
            yield from _common(Path(os.path.realpath(root / text[8:].strip())))


def _common(folder: Path) -> Iterator[Path]:
    yield folder
    if named := os.fsdecode(read_start(folder / "commondir")).strip():
        yield Path(os.path.realpath(folder / named))


def git_link(tree: Path) -> tuple[Path, str]:
    """Return git's folder of a work tree beside the main one, and a `.git` for it.

    It names the folder where it is seen once the tree covers the main one: at `GIT_FOLDER`.
    """
    own, common = list(git_places(tree))[1:3]
    return common, f"gitdir: {GIT_FOLDER / own.relative_to(common)}\n"


def shown_temporary(real: Path) -> list[Path]:
    """Return what stays visible of a temporary folder of the machine: the newest files and folders.

    Sockets, and folders with sockets (tmux, ssh-agent, the screen), would be ways out. What Python named
    is left out: such a file may be gone a moment later, and then bubblewrap gives up.
    """
    found: list[tuple[float, str]] = []
    with contextlib.suppress(OSError), os.scandir(real) as entries:
        for entry in entries:
            if not entry.name.startswith(HIDDEN_TEMPORARY) and not _CHOSEN_BY_PYTHON.fullmatch(entry.name):
                with contextlib.suppress(OSError):  # it is gone by now
                    found.append((entry.stat(follow_symlinks=False).st_mtime, entry.path))
    newest = [Path(place) for _, place in sorted(found, reverse=True)[: 3 * _MOST_SHOWN]]
    with_sockets = {above for place in bound_sockets() for above in place.parents if above.parent == real}
    harmless = (place for place in newest if place not in with_sockets and _is_harmless(place))
    return list(islice(harmless, _MOST_SHOWN))


def bound_sockets() -> list[Path]:
    """Return where the kernel says that somebody on this machine has a Unix socket."""
    try:
        lines = Path("/proc/net/unix").read_text("utf-8", "replace").splitlines()[1:]
    except OSError:
        return []
    words = (line.split(maxsplit=7) for line in lines)
    return list(dict.fromkeys(Path(one[7]) for one in words if len(one) == 8 and one[7].startswith("/")))


def _is_harmless(place: Path) -> bool:
    """Return whether it is a file, or a folder in which no socket is found by looking at so many entries.

    Of containers' sockets the kernel says nothing here.
    """
    if place.is_symlink() or not place.is_dir():
        return place.is_file() and not place.is_symlink()
    waiting, seen = deque([str(place)]), 0
    while waiting and seen < _MOST_LOOKED_AT:
        try:
            with os.scandir(waiting.popleft()) as entries:
                for entry in islice(entries, _MOST_LOOKED_AT):
                    seen += 1
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode):
                        return False
        except OSError:
            return False
    return True


_READ_ONLY = re.compile(r"read-only file system|EROFS", re.IGNORECASE)
_DENIED = re.compile(r"read-only file system|EROFS|permission denied|EACCES", re.IGNORECASE)
_PLACE = re.compile(r"""['"‘`](/[^'"’`\n]{1,300})['"’`]|(?:^|[\s:(])(/[^\s:'"(),]{2,300})""")
_INSTALLED = re.compile(r"/(node_modules|\.?venv|vendor)(/|$)")
_LANE = (
    "In a lane your dependencies are read-only; lane_setup gives each lane its own "
    "(`docs/guides/parallel.md`)."
)
_LINES = 200


def explain_denied(text: str, *, by_rules: bool) -> str:
    """Return a sentence about the last place that could not be written; empty if there is none.

    Mounts make places read-only; rules (Landlock) deny the permission.
    """
    for line in reversed(text.splitlines()[-_LINES:]):
        if (_DENIED if by_rules else _READ_ONLY).search(line):
            found = _PLACE.search(line)
            place = next(filter(None, found.groups()), "") if found else ""
            if _INSTALLED.search(place):
                return _LANE
            where = f"{place} is" if place else "the place is"
            setting = f'["{place}"]' if place else "[…]"
            closed = f"If {where} closed by the sandbox"
            return f"{closed}, sandbox.write = {setting} opens it (`docs/guides/sandbox.md`)."
    return ""


class OwnInstallation(Struct, frozen=True):
    """Where Segue runs from, if agents could write that."""

    kept: tuple[Path, ...] = ()
    """What is made read-only for them."""
    note: str = ""
    """What to say about it; empty if agents cannot write Segue anyway."""


def examine_installation(tree: Path, opened: Iterable[Path], *, can_keep: bool) -> OwnInstallation:
    """Return what Segue was installed into, if agents can write it; what the user has opened stays open."""
    prefix, source, bytecode = own_prefix(), own_source(), own_bytecode()
    writable = [Path(os.path.realpath(place)) for place in expand_places(tree, opened)]
    kept = [Path(place) for place in (prefix, bytecode) if place is not None and can_keep]
    kept = [place for place in kept if not any(one.is_relative_to(place) for one in writable)]
    if source is None and prefix is not None and Path(prefix) in kept:
        return OwnInstallation(
            tuple(kept),
            f"Segue is installed in {prefix}, so agents cannot change that folder; to let them, install "
            "Segue in an environment of its own (`docs/guides/sandbox.md`).",
        )
    if bytecode is not None and Path(bytecode) in kept:
        bytecode = None
    place = source or prefix or bytecode
    if place is None and (place := own_search()) is not None:
        return OwnInstallation(
            tuple(kept),
            f"PYTHONPATH names {place}, where agents can write: Python runs what they put there before Segue "
            "can refuse. Start Segue without it (`docs/guides/sandbox.md`).",
        )
    if place is None:
        return OwnInstallation(tuple(kept))
    return OwnInstallation(
        tuple(kept),
        f"Segue itself runs from {place}, where agents can write: what they change there runs outside of the "
        "sandbox. Install Segue in an environment of its own (`docs/guides/sandbox.md`).",
    )
