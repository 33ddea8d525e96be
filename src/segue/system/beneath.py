"""Reach files below a folder by descriptor, without following a link: others may have prepared them.

A path that was looked at can be another one when it is used. Here each folder on the way is opened once, and
what is done to a name is done in the folder that was opened. Nothing waits: pipes and devices are not opened.
"""

# A launch looks at a dozen files, and pathlib knows no descriptors.
# ruff: noqa: PTH208
from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Self

from segue.domain.errors import SourceError
from segue.system.descent import CLOSED, FOLDER_FLAGS, STILL, open_folder, split_path

_BY_PATH = sys.platform == "win32"
"""Windows has no descriptors of folders: every part of the path is looked at just before it is used. A link
that is made in between is followed; making one needs a right there that agents do not have."""
LARGEST_TEXT = 16 * 1024**2
_TRIES = 100
"""How often something is removed that somebody puts there again and again."""
_MOVING = (errno.EEXIST, errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
"""What is said when somebody changes a path while it is used."""
_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISLNK, "a link"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISREG, "a file"),
)


class UnsafeFile(SourceError):
    """A file that is not read: it is no regular file, too large, or outside of the repository."""

    def __init__(self, message: str, hint: str = "Put a file in its place, or remove it.") -> None:
        super().__init__(message, kept="Nothing was read from it, and nothing was changed.", hint=hint)


class Beneath:
    """A folder that is open; paths are relative to it, and no part of them may be a link."""

    def __init__(self, root: str | Path) -> None:
        """Open the folder; the way to it may lead through links."""
        self.root = os.path.realpath(root)
        self._handle = None if _BY_PATH else os.open(self.root, FOLDER_FLAGS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            os.close(self._handle)

    def status(self, path: str) -> os.stat_result | None:
        """Return what is there; None if nothing is, or if a link or a file is on the way."""
        try:
            with self._parent(path) as (folder, name):
                return os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return None

    def read(self, path: str, limit: int) -> bytes:
        """Return the contents of a regular file; raises UnsafeFile for anything else, OSError for nothing."""
        whole = os.path.join(self.root, path)  # noqa: PTH118
        try:
            with self._parent(path) as (folder, name):
                # Looked at before, too: opening a device may do something.
                _check_regular(os.stat(name, dir_fd=folder, follow_symlinks=False), whole)
                handle = os.open(name, os.O_RDONLY | STILL | CLOSED, dir_fd=folder)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise UnsafeFile(f"{whole} is reached through a link that is not followed.") from None
            raise
        try:
            return read_open(handle, whole, limit)
        finally:
            os.close(handle)

    def names(self, path: str) -> list[str]:
        """Return what a folder contains; nothing if it is none."""
        try:
            with self._open(path) as folder:
                if folder is None:
                    return os.listdir(os.path.join(self.root, path))  # noqa: PTH118
                handle = os.open(".", os.O_RDONLY | CLOSED, dir_fd=folder)
                try:
                    return os.listdir(handle)
                finally:
                    os.close(handle)
        except OSError:
            return []

    def link(self, path: str) -> str | None:
        """Return where a link leads; None if it is none."""
        try:
            with self._parent(path) as (folder, name):
                return os.readlink(name, dir_fd=folder)
        except (OSError, ValueError):
            return None

    def write(self, path: str, data: bytes, mode: int | None = None, durable: bool = True) -> None:
        """Write a file, whole or not at all, in place of whatever is there but a folder.

        A link, a pipe or another name of the same file is replaced, not written to. Without a mode, that of
        the file is kept; a new one is the owner's alone.
        """
        with self._parent(path) as (folder, name):
            mode = _mode_of(name, folder) if mode is None else mode
            draft = _draft_of(name)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | STILL | CLOSED
            handle = os.open(draft, flags, 0o600, dir_fd=folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                    if sys.platform != "win32" and mode is not None:
                        os.fchmod(handle, mode)
                    if durable:
                        file.flush()
                        os.fsync(handle)
                os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with suppress(OSError):
                    os.unlink(draft, dir_fd=folder)
                raise
            if durable:
                _sync(folder)

    def copy(self, path: str, source: Path) -> None:
        """Make a file or a link like another one, which nobody else can change."""
        found = source.lstat()
        if stat.S_ISLNK(found.st_mode):
            self.make_link(path, str(source.readlink()))
            return
        self.write(path, source.read_bytes(), stat.S_IMODE(found.st_mode), durable=False)
        with self._parent(path) as (folder, name):
            times = (found.st_atime_ns, found.st_mtime_ns)
            os.utime(name, ns=times, dir_fd=folder, follow_symlinks=_BY_PATH)

    def change_mode(self, path: str, mode: int) -> None:
        """Change the mode of a file or folder; a link is not followed."""
        with self._parent(path) as (folder, name):
            os.chmod(name, mode, dir_fd=folder, follow_symlinks=_BY_PATH)

    def remove(self, path: str) -> str:
        """Remove whatever is there; returns the new name of a folder that is not empty, which is kept."""
        with suppress(FileNotFoundError), self._parent(path) as (folder, name):
            return _clear(name, folder)
        return ""

    def delete(self, path: str) -> None:
        """Delete a file or a link; nothing happens if there is none, or if it cannot be reached."""
        with suppress(OSError), self._parent(path) as (folder, name):
            os.unlink(name, dir_fd=folder)

    def rename(self, path: str, new: str) -> None:
        """Give something another name, where nothing but a file may be."""
        with self._parent(path) as (old_folder, old), self._parent(new) as (folder, name):
            os.rename(old, name, src_dir_fd=old_folder, dst_dir_fd=folder)

    def move_in(self, path: str, source: Path) -> None:
        """Move something here from a place that nobody else can change, on the same file system."""
        with self._parent(path) as (folder, name):
            os.rename(source, name, dst_dir_fd=folder)

    def move_out(self, path: str, target: Path) -> None:
        """Move something to a place that nobody else can change, on the same file system."""
        with self._parent(path) as (folder, name):
            os.rename(name, target, src_dir_fd=folder)

    def delete_folder(self, path: str) -> bool:
        """Delete a folder, if it is one and empty; return whether it was."""
        try:
            with self._parent(path) as (folder, name):
                os.rmdir(name, dir_fd=folder)
        except OSError:
            return False
        return True

    def make_folders(self, path: str, clear: bool = True) -> str:
        """Make a folder and those above it, in place of whatever else is there, or raise OSError for that.

        Returns the new name of a file that was in the way, which is kept.
        """
        kept, parts = "", split_path(path)
        for left in reversed(range(_TRIES)):
            try:
                for end in range(1, len(parts) + 1):
                    kept = self._make_folder("/".join(parts[:end]), clear) or kept
                break
            except OSError as error:
                if error.errno not in _MOVING or not (left and clear):
                    raise
        return kept

    def _make_folder(self, path: str, clear: bool) -> str:
        now = self.status(path)
        if now is not None and stat.S_ISDIR(now.st_mode):
            return ""
        with self._parent(path) as (folder, name):
            kept = _clear(name, folder, keep_files=True) if now is not None and clear else ""
            os.mkdir(name, dir_fd=folder)
            return kept

    def make_link(self, path: str, target: str) -> str:
        """Make a link, in place of whatever else is there.

        Returns the new name of a folder that is not empty, which is kept.
        """
        kept = ""
        for _ in range(_TRIES):
            if self.link(path) == target:
                break
            kept = self.remove(path) or kept
            with self._parent(path) as (folder, name), suppress(FileExistsError):
                os.symlink(target, name, dir_fd=folder)
        return kept

    @contextmanager
    def _parent(self, path: str) -> Iterator[tuple[int | None, str]]:
        """Open the folder of a path; gives its descriptor and the name in it."""
        parts = split_path(path)
        if not parts:  # the folder itself, which nobody replaces
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.root)
        *parents, name = parts
        with self._open("/".join(parents)) as folder:
            yield folder, os.path.join(self.root, *parents, name) if _BY_PATH else name  # noqa: PTH118

    @contextmanager
    def _open(self, path: str) -> Iterator[int | None]:
        """Open a folder below; raises OSError, with ELOOP if a link is on the way."""
        if self._handle is None:
            _look_along(self.root, path)
            yield None
        elif not path:
            yield self._handle
        else:
            handle = open_folder(self._handle, path)
            try:
                yield handle
            finally:
                os.close(handle)


def read_still(path: Path, limit: int) -> bytes:
    """Return the contents of a regular file whose path is real: no part of it may be a link by now."""
    with Beneath(path.anchor) as disk:
        return disk.read(str(path)[len(path.anchor) :], limit)


def read_below(root: Path, path: Path, limit: int = LARGEST_TEXT) -> bytes:
    """Return the contents of a file below a folder; nothing if it is no regular file, or too large.

    A link may lead to it, if it leads to a place below the folder.
    """
    real, home = os.path.realpath(path), os.path.realpath(root)
    if not real.startswith(home.rstrip(os.sep) + os.sep):
        return b""
    try:
        return read_still(Path(real), limit)
    except (OSError, UnsafeFile):
        return b""


def append_below(root: Path, path: Path, text: str) -> None:
    """Add a text to a file below a folder; nothing happens to one that is not there, or is a link out."""
    home, real = os.path.realpath(root), os.path.realpath(path)
    with suppress(OSError, UnsafeFile), Beneath(home) as tree:
        below = os.path.relpath(real, home)
        tree.write(below, tree.read(below, LARGEST_TEXT) + text.encode(), durable=False)


def write_still(path: Path, data: bytes, durable: bool = True) -> None:
    """Write a file whose path is real, whole or not at all; no part of it may be a link by now."""
    from segue.system.files import write_error  # only who writes needs it

    below = str(path)[len(path.anchor) :]
    try:
        with Beneath(path.anchor) as disk:
            _check_writable(disk.status(below), path)
            disk.write(below, data, durable=durable)
    except OSError as error:
        raise write_error(error, path) from error


def _check_writable(found: os.stat_result | None, path: Path) -> None:
    if found is not None and not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EEXIST, f"it is {name_kind(found.st_mode)} now", str(path))
    # A rename needs rights on the folder only; a file that its owner made read-only must not change.
    if found is not None and not (found.st_mode & 0o222 and os.access(path, os.W_OK)):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def name_kind(mode: int) -> str:
    """Say what something is, as a noun."""
    return next((words for is_kind, words in _KINDS if is_kind(mode)), "a device")


def read_open(handle: int, shown: str, limit: int) -> bytes:
    """Return the contents of an open file, which must be a regular one of at most `limit` bytes."""
    found = os.fstat(handle)
    _check_regular(found, shown)
    data, rest = bytearray(), limit + 1
    if found.st_size <= limit:  # of a larger one nothing is read
        while rest > 0 and (piece := os.read(handle, min(rest, 1024**2))):
            data += piece
            rest -= len(piece)
    if found.st_size > limit or rest <= 0:
        size = f"{limit // 1024**2} MiB" if limit >= 1024**2 else f"{limit // 1024} KiB"
        raise UnsafeFile(f"{shown} is larger than {size}.", hint="Make it smaller, or remove it.")
    return bytes(data)


def _check_regular(found: os.stat_result, shown: str) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), shown)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), shown)
    if not stat.S_ISREG(found.st_mode):
        raise UnsafeFile(f"{shown} is not a regular file: it is {name_kind(found.st_mode)}.")


def _mode_of(name: str, folder: int | None) -> int | None:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    return stat.S_IMODE(found.st_mode) & 0o777 if stat.S_ISREG(found.st_mode) else None


def _draft_of(name: str) -> str:
    from segue.system.files import temporary_prefix  # only who writes needs it

    draft = f"{temporary_prefix(os.getpid())}{os.urandom(4).hex()}.tmp"
    return os.path.join(os.path.dirname(name), draft)  # noqa: PTH118, PTH120


def _sync(folder: int | None) -> None:
    # Not every system can open or sync a folder; the file itself is safe by then.
    if folder is not None:
        with suppress(OSError):
            handle = os.open(".", os.O_RDONLY | CLOSED, dir_fd=folder)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def _clear(name: str, folder: int | None, keep_files: bool = False) -> str:
    """Remove something; a folder that is not empty, or a file that is to be kept, gets another name."""
    mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    if stat.S_ISDIR(mode):
        with suppress(OSError):
            os.rmdir(name, dir_fd=folder)
            return ""
    elif not (keep_files and stat.S_ISREG(mode)):
        os.unlink(name, dir_fd=folder)
        return ""
    for number in count(1):
        aside = f"{name}.agent{number}"
        try:
            os.stat(aside, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=folder)
            return os.path.basename(aside)  # noqa: PTH119
    raise AssertionError("there are enough numbers")


def _look_along(root: str, path: str) -> None:
    here = root
    for part in split_path(path):
        here = os.path.join(here, part)  # noqa: PTH118
        mode = os.lstat(here).st_mode
        if not stat.S_ISDIR(mode):
            number = errno.ELOOP if stat.S_ISLNK(mode) else errno.ENOTDIR
            raise OSError(number, os.strerror(number), here)
