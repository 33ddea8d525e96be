"""Rights that outlive a launch: programs that run as their owner, devices, folders open to everybody."""

# Every launch is followed by a look at the whole tree, and pathlib would cost more than looking.
# ruff: noqa: PTH118
from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from segue.system.beneath import Beneath, name_kind
from segue.system.git.folders import IN_TREE
from segue.system.git.index import MADE_AGAIN, read_index, shown

_BORROWED = stat.S_ISUID | stat.S_ISGID
_MOST_NAMED = 20
_LARGEST_LIST = 100 * 1024**2
"""Bytes of a file that git obeys, beyond which git itself ignores some of them."""
_CAPABILITY = "security.capability"


def take_back_rights(root: Path, git_dir: Path, since: int) -> list[str]:
    """Take back rights that files of a tree got after an instant, in nanoseconds; returns what to say.

    Pipes and sockets that took the place of files which git reads are removed: git would wait for them.
    The time of a file's last change of state tells: nobody can set it. What had such rights before and was
    not touched keeps them. File systems inside of the tree are somebody else's.
    """
    if sys.platform == "win32":
        return []
    said: list[str] = []
    opened: list[str] = []
    is_read = _reader(git_dir)
    own = os.lstat(root)
    for path, found in _walk(str(root), own.st_dev):
        if found is None:
            said.append(f"The agent left folders in {_show(path[:200])} … that are too deep to be looked at.")
        elif found.st_ctime_ns <= since:
            continue
        elif stat.S_ISDIR(found.st_mode):
            if _is_open(found, own) and not MADE_AGAIN.search(path):
                opened.append(_show(path))
        elif words := _take_back(root, path, found, is_read):
            said.append(words)
    if opened:
        names = ", ".join(opened[:5]) + (" …" if len(opened) > 5 else "")
        said.insert(
            0, f"Since the launch everybody on this machine may write to {names}. To end that: chmod o-w"
        )
    return (
        said
        if len(said) <= _MOST_NAMED
        else [*said[:_MOST_NAMED], f"So were {len(said) - _MOST_NAMED} others."]
    )


def _walk(top: str, device: int) -> Iterator[tuple[str, os.stat_result | None]]:
    """Yield what is below a folder, by its path there; None for a folder that is too deep."""
    folders = [""]
    while folders:
        below = folders.pop()
        try:
            entries = os.scandir(os.path.join(top, below))
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                yield below, None
            continue
        with entries:
            for entry in entries:
                path = os.path.join(below, entry.name)
                try:
                    found = entry.stat(follow_symlinks=False)
                except OSError as error:
                    if error.errno == errno.ENAMETOOLONG:
                        yield below, None
                    continue
                if stat.S_ISDIR(found.st_mode):
                    if found.st_dev != device:
                        continue
                    folders.append(path)
                yield path, found


def _is_open(found: os.stat_result, root: os.stat_result) -> bool:
    """Return whether everybody may write to a folder, where that is not the rule."""
    return bool(found.st_mode & ~root.st_mode & stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX


def _reader(git_dir: Path) -> Callable[[str], bool]:
    """Return what tells whether git reads a file of the tree; its index is read once, if anybody asks."""
    names: list[set[str]] = []

    def is_read(path: str) -> bool:
        if not names:
            names.append({one.name for one in read_index(str(git_dir))})
        return path in names[0] or path.rpartition("/")[2] in IN_TREE

    return is_read


def _remove(tree: Beneath, path: str, found: os.stat_result) -> str:
    tree.remove(path)
    what = f"The agent put {name_kind(found.st_mode)} in place of {_show(path)}, which git reads."
    return f"{what} It was removed."


def _take_back(root: Path, path: str, found: os.stat_result, is_read: Callable[[str], bool]) -> str:
    """Take rights back from one file; returns what to say, nothing if it has none."""
    plain = stat.S_ISREG(found.st_mode) and not found.st_mode & (_BORROWED | 0o111)
    if stat.S_ISLNK(found.st_mode) or (plain and found.st_size <= _LARGEST_LIST):
        return ""
    name = _show(path)
    try:
        with Beneath(root) as tree:
            if stat.S_ISBLK(found.st_mode) or stat.S_ISCHR(found.st_mode):
                tree.remove(path)
                return f"The agent made {name}, which is a device. It was removed."
            if stat.S_ISFIFO(found.st_mode) or stat.S_ISSOCK(found.st_mode):
                return _remove(tree, path, found) if is_read(path) else ""
            if not stat.S_ISREG(found.st_mode):
                return ""
            if found.st_size > _LARGEST_LIST and os.path.basename(path) in IN_TREE:  # noqa: PTH119
                tree.remove(path)
                return f"The agent made {name} too large for git, which reads all of it. It was removed."
            able = bool(found.st_mode & 0o111) and _drop_capabilities(os.path.join(root, path))
            if found.st_mode & _BORROWED:
                tree.change_mode(path, stat.S_IMODE(found.st_mode) & ~_BORROWED)
    except OSError as error:
        return f"The agent gave {name} rights that could not be taken back: {error.strerror}. Remove it."
    if found.st_mode & _BORROWED:
        what = "setuid" if found.st_mode & stat.S_ISUID else "setgid"
        return f"The agent made {name} {what}: it would run with its owner's rights. That was taken back."
    return f"The agent gave {name} capabilities, rights of its own. They were taken back." if able else ""


def _drop_capabilities(path: str) -> bool:
    """Take the capabilities of a file away; return whether it had some that count outside of a sandbox."""
    if sys.platform == "linux":
        with suppress(OSError):  # it has none, or such that only count where the agent was
            os.removexattr(path, _CAPABILITY, follow_symlinks=False)
            return True
    return False


def _show(path: str) -> str:
    return shown(os.fsencode(path))
