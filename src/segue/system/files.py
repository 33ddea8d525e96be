"""Write files atomically and privately, one process at a time."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import IO

from segue.domain.errors import AGAIN, SegueError
from segue.system.identity import start_time
from segue.system.process.notes import BINARY, replace

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_TEMPORARY = ".segue-"
_MEMORY = [Path("/dev/shm")]  # noqa: S108 - only folders that nobody else may enter are made there
"""A place in memory, if it may be used."""
_ROOM = 64 * 1024**2
"""Bytes that must be free there: others need it too."""
_LEAST_ROOM = 1024**2
"""Bytes without which nobody begins to work."""
_HOUR = 3600.0
_PAUSE = 0.01
_NO_LINK: int = getattr(os, "O_NOFOLLOW", 0)
_AT_ONCE: int = getattr(os, "O_NONBLOCK", 0)
"""Opening a named pipe would wait for somebody to write into it."""
_FULL = f"The disk or the quota is full: free some space, then {AGAIN}"
_READ_ONLY = "This place is read-only: choose another folder or make it writable."
_DENIED = "Check who owns the file and its folder, and that you may write to both."
_HINTS = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EROFS: _READ_ONLY,
    errno.EACCES: _DENIED,
    errno.EPERM: _DENIED,
}


def write_atomic(path: Path, data: bytes, durable: bool = True) -> None:
    """Write a file so that readers, also after a crash, see either the old content or the new one.

    Unless it is `durable`, a power failure may damage it: that will do for what can be made again.
    """
    # A link is followed, so that it is not replaced by a file.
    target = Path(os.path.realpath(path))
    try:
        if path.exists() and not path.is_file():  # nor is a device or a pipe
            path.write_bytes(data)
            return
        _replace(target, data, durable)
        if durable:
            _sync_folder(target.parent)
    except OSError as error:
        raise write_error(error, path) from error


def is_led(path: Path) -> bool:
    """Return whether a link or a named pipe that agents can make decides where a path leads."""
    from segue.system.programs import reach  # most commands write nothing

    return reach().find_link(path) is not None or (path.is_fifo() and reach().has(path))


def check_way(path: Path) -> None:
    """Raise SegueError if something that agents can make decides where a file of the user is written."""
    if not is_led(path):
        return
    from segue.system.programs import reach

    link, target = reach().find_link(path), os.path.realpath(path)
    what = f"{link} is a link that leads to {target}" if link else "it is a named pipe"
    raise SegueError(
        f"{path} is not written: {what}, and agents could have made that.",
        kept="Nothing was written.",
        hint=f"Remove it, or name the file itself: {target}" if link else "Remove it, or name another file.",
    )


def create_new(path: Path, data: bytes) -> bool:
    """Create a file that appears with all its content, the owner's alone.

    False if there is one by now, or if this place does not permit it.
    """
    try:
        temporary = _write_beside(path, data, None, durable=True)
        try:
            path.hardlink_to(temporary)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError:
        return False
    _sync_folder(path.parent)
    return True


def read_start(path: str | Path, limit: int = 1024**2, *, follow: bool = True) -> bytes:
    """Return the beginning of a file; nothing if it cannot be read, or is a link that is not to be followed.

    Cheaper than a file object.
    """
    try:
        handle = os.open(path, os.O_RDONLY | BINARY | _AT_ONCE | (0 if follow else _NO_LINK))
    except OSError:
        return b""
    try:
        found = os.fstat(handle)
        # One byte more than there is: what grows meanwhile is read by the next look.
        return os.read(handle, min(limit, found.st_size + 1)) if stat.S_ISREG(found.st_mode) else b""
    except OSError:
        return b""
    finally:
        os.close(handle)


def read_end(path: Path, limit: int) -> bytes:
    """Return the end of a regular file; nothing if it cannot be read."""
    try:
        handle = os.open(path, os.O_RDONLY | BINARY | _AT_ONCE)
    except OSError:
        return b""
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            return b""
        file.seek(max(0, found.st_size - limit))
        return file.read(limit)


def list_folder(folder: Path, most: int | None = None) -> list[os.DirEntry[str]]:
    """Return what is in a folder, or the first of it; nothing if it cannot be read."""
    try:
        with os.scandir(folder) as found:
            return list(islice(found, most))
    except OSError:
        return []


def signature(path: str | Path) -> tuple[int, int, int, int] | None:
    """Return what differs whenever the file was written in between; None if there is no file."""
    try:
        found = os.stat(path)  # noqa: PTH116 - every git that is started looks at some
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def clear_temporary(folder: Path) -> None:
    """Delete what processes that were killed have begun to write into the folder."""
    for path in folder.glob(f"{_TEMPORARY}*-*-*.tmp"):
        pid, start = path.name.removeprefix(_TEMPORARY).split("-")[:2]
        if not pid.isdecimal() or start_time(int(pid)) == start:
            continue
        if path.is_dir() and not path.is_symlink():
            _remove(str(path))
        else:
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def brief_folder(elsewhere: Path | None = None) -> Iterator[Path]:
    """Make a private folder for a moment, in memory if it can be: replacing a file waits for the disk.

    Without memory it is made in the place `elsewhere`, or where temporary files are.
    """
    place = brief_place(elsewhere)
    folder = tempfile.mkdtemp(prefix=temporary_prefix(os.getpid()), suffix=".tmp", dir=place)
    try:
        yield Path(folder)
    finally:
        _remove(folder)


def clear_brief_folders() -> None:
    """Delete the folders of processes that were killed; only old ones, for a container may share the place.

    There, another process has the same number.
    """
    for path in brief_place().glob(f"{_TEMPORARY}*.tmp"):
        with contextlib.suppress(OSError):
            if path.lstat().st_mtime < time.time() - _HOUR:
                shutil.rmtree(path, ignore_errors=True)


def brief_place(elsewhere: Path | None = None) -> Path:
    """Return where folders are made that exist for a moment only."""
    for memory in _MEMORY:
        with contextlib.suppress(OSError):
            room = shutil.disk_usage(memory).free
            if room > _ROOM and os.access(memory, os.W_OK | os.X_OK):
                return memory
    return elsewhere or Path(tempfile.gettempdir())


def leave_memory() -> None:
    """Make brief folders on the disk from now on, because agents can reach the place in memory."""
    _MEMORY.clear()


def private_folder(path: Path) -> Path:
    """Create a folder and its parents, readable by the owner only; an existing one is left as it is."""
    if path.is_dir():
        return path
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        for folder in reversed(missing):
            folder.mkdir(mode=0o700, exist_ok=True)
        if not path.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    except OSError as error:
        raise write_error(error, path) from error
    return path


def check_writable(path: Path) -> None:
    """Raise what making or writing a file or folder would raise; nothing is made."""
    place = next((one for one in (path, *path.parents) if os.path.lexists(one)), Path())
    is_folder, wanted = place.is_dir(), os.W_OK
    number = 0
    if place != path and not is_folder:
        number = errno.ENOTDIR
    elif not os.access(place, wanted | os.X_OK if is_folder else wanted):
        number = errno.EACCES
    if number:
        raise write_error(OSError(number, os.strerror(number), str(path)), path)


@contextlib.contextmanager
def exclusive(path: Path, patience: float = float("inf")) -> Iterator[None]:
    """Keep other processes and threads out of a read-change-write; `path` is the lock file.

    Raises SegueError if somebody else holds the lock longer than `patience` seconds.
    """
    try:
        # Neither a link nor a pipe that somebody put there is opened.
        handle = os.open(path, os.O_RDWR | os.O_CREAT | BINARY | _AT_ONCE | _NO_LINK, 0o666)
    except OSError as error:
        raise write_error(error, path) from error
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise write_error(OSError(errno.EEXIST, "it is not a regular file"), path)
        _lock(handle, path, time.monotonic() + patience)
        yield
    finally:
        os.close(handle)


def write_error(error: OSError, path: Path) -> SegueError:
    """Return an error that explains why a file could not be written."""
    return SegueError(
        f"Cannot write {path}: {error.strerror or error}.",
        kept="What was there before is unchanged.",
        hint=_HINTS.get(error.errno or 0, f"Check the path, then {AGAIN}"),
    )


def is_full(error: Exception) -> bool:
    """Return whether an error says that a disk or a quota is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def ensure_room(folders: Iterable[Path]) -> None:
    """Raise an error that says what to do when a folder's disk has no room to work in."""
    for folder in folders:
        try:
            with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
                _allocate(file, _LEAST_ROOM)
        except OSError as error:
            if is_full(error):  # all else is said better by whoever needs the folder
                raise SegueError(
                    f"The disk is full: {folder} has no room for {_LEAST_ROOM // 1024**2} MB more.",
                    kept="Everything done so far. Nobody was launched.",
                    hint=f"Free some space there, then {AGAIN}",
                ) from error


def _allocate(file: IO[bytes], size: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
    else:
        file.write(bytes(size))


def explain_full_disk(error: Exception) -> SegueError | None:
    """Return what to say about a disk that is full; None for any other error."""
    if not is_full(error):
        return None
    assert isinstance(error, OSError)
    named = f" ({error.filename})" if error.filename else ""
    return SegueError(
        f"The disk is full{named}.",
        kept="Everything that was recorded before.",
        hint=f"Free some space in the repository's disk and in that of Segue's state folder, then {AGAIN}",
    )


def _replace(target: Path, data: bytes, durable: bool) -> None:
    mode = target.stat().st_mode & 0o7777 if target.exists() else None
    # A rename needs rights on the folder only; a file that its owner made read-only must not change.
    if mode is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
    temporary = _write_beside(target, data, mode, durable)
    try:
        replace(str(temporary), str(target))
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _write_beside(target: Path, data: bytes, mode: int | None, durable: bool) -> Path:
    """Write a temporary file into the folder of another one, the owner's alone unless there is a mode."""
    handle, name = tempfile.mkstemp(prefix=temporary_prefix(os.getpid()), suffix=".tmp", dir=target.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            if mode is not None:
                temporary.chmod(mode)
            if durable:
                file.flush()
                os.fsync(file.fileno())
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return temporary


@cache
def temporary_prefix(pid: int) -> str:
    """Return how the names of files begin that a process is writing: after a kill they are found by it."""
    return f"{_TEMPORARY}{pid}-{start_time(pid)}-"


def _remove(folder: str) -> None:
    """Remove a folder that nobody else uses; quicker than the careful way, which is taken if that fails."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    _remove(entry.path)
                else:
                    os.unlink(entry.path)  # noqa: PTH108 - pathlib would cost more than the removal
        os.rmdir(folder)  # noqa: PTH106
    except OSError:
        shutil.rmtree(folder, ignore_errors=True)


def _sync_folder(folder: Path) -> None:
    # Not every system can open or sync a folder; the file itself is safe by then.
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _lock(handle: int, path: Path, until: float) -> None:
    """Wait for the lock; it is released when the file is closed, also by a crash."""
    if _try_lock(handle, wait=False):
        return
    import logging  # most commands wait for nothing

    logging.getLogger(__name__).info("waiting for the lock %s", path)
    while not _try_lock(handle, wait=until == float("inf")):
        if time.monotonic() > until:
            raise write_error(OSError(errno.EAGAIN, "another process holds its lock"), path)
        time.sleep(_PAUSE)


def _try_lock(handle: int, wait: bool) -> bool:
    if sys.platform == "win32":
        with contextlib.suppress(OSError):
            # This call gives up after ten seconds, so it is repeated.
            msvcrt.locking(handle, msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
            return True
        return False
    else:  # noqa: RET505 - so that mypy knows where fcntl is
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            # Some network file systems have no locks; the run's own lock still keeps a second run away.
            return True
        return True
