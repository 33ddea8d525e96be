"""What in a git folder decides what git believes or starts; everything else there is written by daily work.

That is git's own division (gitrepository-layout): objects, refs, logs and indexes are work. Of what another
tool keeps in the folder git knows nothing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

from segue.system.beneath import Beneath, name_kind
from segue.system.files import read_start
from segue.system.originals import FILE, FOLDER, Original

Look = Callable[[str], Original]
POINTERS = ("commondir", "gitdir")
"""Where a work tree's git folder says which other one it belongs to."""
HISTORY = ("shallow", "objects/info/alternates", "objects/info/http-alternates")
"""What changes which commits there are."""
_STARTING = ("config", "config.worktree", "commondir")
_WHOLE = ("hooks", "info", "remotes", "branches")
"""Folders of which everything counts, but for what daily work writes there."""
_WORK = ("info/refs", "info/sparse-checkout")
_OFTEN = ("refs", "logs", "objects", "info")
_ORDINARY = (FILE, FOLDER, "a socket")
"""What is in a git folder; a socket is that of git's own file system monitor."""
_MOST_HOOKS = 1000
LARGEST = 16 * 1024**2
"""Bytes of a file in a git folder that are read and kept."""


def control_files(folder: str, look: Look) -> Iterator[str]:
    """Yield every path in a git folder that decides what git believes or starts, also where nothing is."""
    yield from (f"{folder}/{name}" for name in (*_STARTING, *HISTORY))
    for name in _WHOLE:
        yield from _everything(folder, name, look)


def starting_files(folder: str, look: Look) -> Iterator[str]:
    """Yield every path in a git folder that makes git start a program, or look elsewhere."""
    yield from (f"{folder}/{name}" for name in _STARTING)
    yield from _everything(folder, "hooks", look)


def _everything(folder: str, name: str, look: Look) -> Iterator[str]:
    """Yield a folder and what is in it; a link that was there before is followed."""
    yield (place := f"{folder}/{name}")
    found = look(place)
    if found.kind != FOLDER:
        return
    seen = 0
    for top, _, files in os.walk(found.real):
        for file in files:
            below = os.path.relpath(os.path.join(top, file), found.real)  # noqa: PTH118
            if (seen := seen + 1) > _MOST_HOOKS:
                return
            if not file.endswith((".sample", ".lock")) and f"{name}/{below}" not in _WORK:
                yield f"{place}/{below}"


def find_odd(folder: str) -> list[str]:
    """Return what in a git folder is neither a file nor a folder, and refs that are no refs any more.

    Git would follow it, wait for it, or read it until no memory is left.
    """
    with Beneath(folder) as place:
        looked = ((name, place.status(name)) for name in place.names(""))
        found = [name for name, one in looked if one is not None and name_kind(one.st_mode) not in _ORDINARY]
    folders = [f"{folder}/{name}" for name in _OFTEN if name not in found]
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif not entry.is_file(follow_symlinks=False) or _is_endless(entry, folder):
                    found.append(os.path.relpath(entry.path, folder))
    return [f"{folder}/{name}" for name in found]


def _is_endless(entry: os.DirEntry[str], folder: str) -> bool:
    return entry.path.startswith(f"{folder}/refs/") and entry.stat(follow_symlinks=False).st_size > LARGEST


def find_modules(folder: str) -> Iterator[str]:
    """Yield the git folders of submodules in a git folder, and of those within them."""
    folders = [f"{folder}/modules"]
    while folders:
        with contextlib.suppress(OSError), os.scandir(folders.pop()) as entries:
            inside = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
            made = [path for path in inside if os.path.lexists(f"{path}/HEAD")]
            yield from made
            folders += [f"{path}/modules" for path in made] + [path for path in inside if path not in made]


def find_trees(folder: str) -> Iterator[str]:
    """Yield the git folders of other work trees of a repository; not of those that are being made."""
    with contextlib.suppress(OSError), os.scandir(f"{folder}/worktrees") as entries:
        for entry in entries:
            made = os.path.lexists(f"{entry.path}/index") and entry.is_dir(follow_symlinks=False)
            if made and read_start(f"{entry.path}/locked") != b"initializing":
                yield entry.path
