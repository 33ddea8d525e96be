"""Repositories within a work tree and within its git folder: an agent must not lead their git elsewhere.

Segue starts no git there, but the user's own git, editor and prompt do. Clones and `git init` are ordinary
work: of a repository that an agent makes, only what would start a program is taken away.

Which files of a git folder decide what git believes or starts is git's own division (gitrepository-layout):
objects, refs, logs and indexes are work. Of what another tool keeps in the folder git knows nothing.
"""

# Every launch looks twice at every folder of the work tree.
# ruff: noqa: PTH118
from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from segue.system.beneath import Beneath, name_kind
from segue.system.files import read_start
from segue.system.git.config import format_setting, starts_nothing
from segue.system.originals import FILE, FOLDER, Original, Originals, find_replaced, nothing_at

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
            below = os.path.relpath(os.path.join(top, file), found.real)
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


HOOKS_PATH = "core.hookspath"
_GIT = ".git"
"""In small letters: there are systems on which `.GIT` is the same."""
_SETTLED = 2 * 10**9
"""Nanoseconds after which a folder that is written to again has another time."""
_LONGEST_NAME = 4096
_MOST_NAMED = 5
_LFS = re.compile(r"git-lfs (clean|smudge|filter-process)( --skip)?( -- %f)?")
Settings = list[tuple[str, str]]
ReadSettings = Callable[[str], Awaitable[Settings | None]]
"""Returns the settings in a file that was kept, by its digest; None if git cannot read it."""
Nested = dict[str, dict[str, Original]]
"""By the path of a git folder or of what leads to one: what is there."""


class GitViolation(msgspec.Struct, frozen=True):
    """Something that an agent must not do to a repository."""

    subject: str
    text: str
    fails: bool = True
    """Whether the attempt fails for it; otherwise it is only reported."""


class _Folder(NamedTuple):
    """A folder of the work tree, as it was when it was last read."""

    stamp: tuple[int, ...]
    inside: tuple[str, ...]
    found: tuple[str, ...]


class NestedGuard:
    """Compares repositories within a repository before and after a launch."""

    def __init__(self, root: str, originals: Originals, read_settings: ReadSettings) -> None:
        self._root, self._originals, self._read = os.path.realpath(root), originals, read_settings
        self._homes: set[str] = set()
        self._modules: set[str] = set()
        self._folders: dict[str, _Folder] = {}

    def look(self, own: str, common: str) -> Nested:
        """Return what is there before a launch."""
        return {path: self._look_at(path) for path in self._places(own, common)}

    async def restore(
        self, own: str, common: str, before: Nested, hooks: Collection[str | None]
    ) -> list[GitViolation]:
        """Put back what leads elsewhere or starts something; `hooks` are digests of the user's own."""
        found = []
        for path in sorted({*self._places(own, common), *before}):
            if path in before:
                found += await self._put_back(path, before[path])
            elif not self._is_tree(path):  # another lane's, or the user's: what leads there is looked at
                found += await self._disarm(path, hooks)
        return found

    def _places(self, own: str, common: str) -> list[str]:
        """Return the git folders in the work tree and within git folders, and what leads to them."""
        found = list(self._in_tree())
        homes = {own, common, *filter(_is_folder, found)}
        self._modules = {path for home in homes for path in find_modules(home)}
        self._homes = homes | self._modules
        return [*found, *self._modules, *(path for home in homes for path in find_trees(home) if path != own)]

    def _is_tree(self, path: str) -> bool:
        return any(path.startswith(f"{home}/worktrees/") for home in self._homes)

    def _in_tree(self) -> Iterator[str]:
        """Yield each `.git` below that of the work tree itself, and each folder that is a bare repository."""
        folders, known, self._folders = [self._root], self._folders, {}
        while folders:
            path = folders.pop()
            one = _read_folder(path, known.get(path))
            if one is not None:
                self._folders[path] = one
                yield from one.found if path != self._root else ()
                folders += one.inside

    def _look_at(self, path: str) -> dict[str, Original]:
        paths = [path, *(self._starting(path, {}) if _is_folder(path) else ())]
        looked = ((one, self._originals.look(one)) for one in paths)
        return {one: found for one, found in looked if found.kind or found.links}

    def _starting(self, folder: str, known: Mapping[str, Original]) -> Iterator[str]:
        yield from starting_files(folder, lambda path: self._originals.look(path, known.get(path)))
        if os.path.lexists(f"{folder}/gitdir"):
            yield f"{folder}/gitdir"

    async def _put_back(self, path: str, known: dict[str, Original]) -> list[GitViolation]:
        """Compare a repository that was there before the launch."""
        old, new = known.get(path) or nothing_at(path), self._originals.look(path, known.get(path))
        if not new.kind and new.links == old.links:
            return []  # it is gone, so that it leads nowhere
        if old.kind != FOLDER or new.links != old.links or not _is_folder(path):
            if new.is_like(old):
                return []
            # The folder itself was not kept: without one, git finds no repository there.
            self._originals.put_back(old if old.kind != FOLDER else nothing_at(path))
            text = (
                f"The agent changed {self._shown(path)}, which says where git's folder is. It was put back."
            )
            return [GitViolation("git configuration", text)]
        found = []
        for name in sorted({*known, *self._starting(path, known)} - {path}):
            is_hook = name.startswith(f"{path}/hooks/")
            one = await self._compare(name, known.get(name) or nothing_at(name), is_hook)
            found += [one] if one is not None else []
        return found

    async def _compare(self, name: str, old: Original, is_hook: bool) -> GitViolation | None:
        new = self._originals.look(name, old)
        made_folder = not old.kind and new.kind == FOLDER
        is_same = new.is_like(old) and (old.mode ^ new.mode) & 0o111 == 0
        if find_replaced(old, new) is None and (made_folder or is_same):
            return None
        if not (new.kind or new.links) and self._is_tree(name):
            return None  # a lane that is being made again; without this file, git starts nothing there
        only_hooks_path = False
        if old.digest and new.digest and _is_config(name):
            before, after = await self._unsafe(name, old.digest), await self._unsafe(name, new.digest)
            if before is not None and before == after:
                return None
            only_hooks_path = None not in (before, after) and without_hooks(before) == without_hooks(after)
        self._originals.put_back(old)
        text = f"The agent changed {self._shown(name)}, which decides what git does. It was put back."
        # Tools such as git-lfs and husky install hooks wherever they are used.
        fails = not (is_hook or only_hooks_path)
        return GitViolation("git hooks" if is_hook else "git configuration", text, fails)

    async def _disarm(self, path: str, hooks: Collection[str | None]) -> list[GitViolation]:
        """Take away what would start a program in a repository that was made in the launch."""
        if not _is_folder(path):
            if self._leads_home(path):
                return []
            self._originals.put_back(nothing_at(path))
            text = f"The agent made {self._shown(path)}, which leads git elsewhere. It was removed."
            return [GitViolation("git configuration", text, fails=False)]
        taken: list[str] = []
        for name in self._starting(path, {}):
            taken += await self._take_away(name, hooks)
        if not taken:
            return []
        text = f"The agent made the repository {self._shown(path)}, in which git would start programs: "
        text += f"{', '.join(taken[:_MOST_NAMED])}. They were taken out of it."
        return [GitViolation("git configuration", text, fails=False)]

    async def _take_away(self, name: str, hooks: Collection[str | None]) -> list[str]:
        """Remove a file that starts something, or what it says about that; return what it was."""
        nothing = nothing_at(name)
        new = self._originals.look(name, nothing)
        last = os.path.basename(name)  # noqa: PTH119
        if find_replaced(nothing, new) is None:
            if new.kind in ("", FOLDER) or new.digest in hooks or last == "gitdir":
                return []
            if _is_config(name) and new.digest is not None:
                return await self._take_settings(name, new)
        self._originals.put_back(nothing)
        return [last]

    async def _take_settings(self, name: str, new: Original) -> list[str]:
        settings = await self._read(new.digest or "")
        unsafe = await self._unsafe(name, new.digest or "")
        if unsafe == []:
            return []
        kept = [one for one in settings or () if one not in (unsafe or ())]
        self._originals.put_back(new, "".join(map(format_setting, kept)).encode("utf-8", "surrogateescape"))
        return list(dict.fromkeys(key for key, _ in unsafe or ())) or ["config"]

    async def _unsafe(self, name: str, digest: str) -> Settings | None:
        """Return the settings that start a program or lead elsewhere; None if git cannot read them."""
        found = await self._read(digest)
        folder = os.path.dirname(name)  # noqa: PTH120
        return found and [one for one in found if not self._is_safe(folder, *one)]

    def _is_safe(self, folder: str, key: str, value: str) -> bool:
        if key == "core.worktree":  # of a submodule
            return self._is_inside(os.path.realpath(os.path.join(folder, value)))
        if key == "core.fsmonitor":  # git's own
            return value.lower() in ("true", "false", "1", "0", "yes", "no", "")
        return starts_nothing(key) or (key.startswith("filter.lfs.") and _is_lfs(key, value))

    def _leads_home(self, path: str) -> bool:
        """Return whether a new `.git` leads to where git keeps those of submodules and work trees."""
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return False
        target = _named_in(path, os.path.dirname(path))  # noqa: PTH120
        linked = _named_in(f"{target}/commondir", target)
        if not linked:
            return target in self._modules
        is_tree = linked in self._homes and target.startswith(f"{linked}/worktrees/")
        # Git gives a new work tree the settings of the one it was made from.
        return is_tree and read_start(f"{target}/config.worktree") == read_start(f"{linked}/config.worktree")

    def _is_inside(self, path: str) -> bool:
        top = os.path.realpath(self._root)
        return path == top or path.startswith(top + os.sep)

    def _shown(self, path: str) -> str:
        return os.path.relpath(path, self._root) if path.startswith(self._root + os.sep) else path


def _read_folder(path: str, known: _Folder | None) -> _Folder | None:
    """Return what a folder contains; one that nobody touched is not read again."""
    try:
        now = os.lstat(path)
        stamp: tuple[int, ...] = (now.st_dev, now.st_ino, now.st_mtime_ns, now.st_ctime_ns)
        if known is not None and known.stamp == stamp:
            return known
        with os.scandir(path) as entries:
            names = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
    except OSError:
        return None
    is_bare = "HEAD" in names and ("commondir" in names or {"objects", "refs"} <= names.keys())
    found = [path] if is_bare else []
    found += [os.path.join(path, name) for name in names if name.lower() == _GIT]
    inside = (name for name, is_folder in names.items() if is_folder and name.lower() != _GIT)
    if max(stamp[2:]) > time.time_ns() - _SETTLED:
        stamp = ()
    return _Folder(stamp, tuple(os.path.join(path, name) for name in inside), tuple(found))


def _named_in(path: str, folder: str) -> str:
    """Return the folder that a file names, relative to another; empty if it names none."""
    named = os.fsdecode(read_start(path, _LONGEST_NAME)).removeprefix("gitdir:").strip()
    return os.path.realpath(os.path.join(folder, named)) if named and "\0" not in named else ""


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _is_config(name: str) -> bool:
    return Path(name).name in ("config", "config.worktree")


def _is_lfs(key: str, value: str) -> bool:
    return key == "filter.lfs.required" or _LFS.fullmatch(value) is not None


def without_hooks(settings: Settings | None) -> Settings | None:
    """Return settings without the folder of hooks, which tools such as husky set when they are installed."""
    return settings and [one for one in settings if one[0] != HOOKS_PATH]
