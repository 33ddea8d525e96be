"""Tokens, keys and approvals: files of the user's own that nobody else wrote or can read.

They are in the user's state folder, never below a project: a token that came with a clone is not believed,
wherever the project's settings move the rest of Segue's files.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

from segue.domain.errors import SegueError
from segue.system.files import exclusive, private_folder, write_atomic, write_error

_MAX_BYTES = 1024**2
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


def secret_folder(state_dir: Path | None) -> Path:
    """Return where the secrets for a state folder are: each one has its own, in the user's own folder."""
    import platformdirs

    own = platformdirs.user_state_path("segue")
    place = os.path.realpath(state_dir or own)
    folder = own / "private"
    if place == os.path.realpath(own):
        return folder
    import hashlib

    return folder / f"for-{hashlib.sha256(os.fsencode(place)).hexdigest()[:16]}"


def make_secret_folder(path: Path) -> Path:
    """Make a folder for secrets, or check that an existing one is the user's alone."""
    private_folder(path)
    _check(path, path.lstat(), stat.S_ISDIR)
    return path


def read_secret(path: Path) -> bytes | None:
    """Return a secret, None if there is none; raise SegueError unless it is the user's alone."""
    try:
        _check(path.parent, path.parent.lstat(), stat.S_ISDIR)
        handle = os.open(path, os.O_RDONLY | _NO_FOLLOW)
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _foreign(path, "is a link") from None
        raise SegueError(f"Cannot read {path}: {error.strerror}.") from error
    try:
        _check(path, os.fstat(handle), stat.S_ISREG)
        return os.read(handle, _MAX_BYTES)
    finally:
        os.close(handle)


def write_secret(path: Path, data: bytes) -> None:
    """Write a secret; raise SegueError if something else is in its place."""
    make_secret_folder(path.parent)
    if path.is_symlink():
        raise _foreign(path, "is a link")
    write_atomic(path, data)


def keep_secret(path: Path, make: Callable[[], str]) -> str:
    """Return a secret; the first call makes it."""
    make_secret_folder(path.parent)
    with exclusive(path.parent / ".lock"):
        known = read_secret(path)
        if known is None:
            write_secret(path, f"{make()}\n".encode())
            known = read_secret(path) or b""
    text = known.decode("ascii", "replace").strip()
    if not text:
        raise _foreign(path, "is empty")
    return text


def _check(path: Path, found: os.stat_result, is_kind: Callable[[int], bool]) -> None:
    """Raise SegueError unless this is the user's own file or folder and nobody else can open it."""
    if stat.S_ISLNK(found.st_mode):
        raise _foreign(path, "is a link")
    if not is_kind(found.st_mode):
        raise _foreign(path, "is something else than expected")
    if not hasattr(os, "getuid"):
        return
    if found.st_uid != os.getuid():
        raise _foreign(path, "belongs to somebody else")
    if found.st_mode & 0o077:
        if stat.S_ISREG(found.st_mode):
            raise _foreign(path, "could be read or written by others")
        with contextlib.suppress(OSError):
            path.chmod(0o700)
            return
        raise write_error(PermissionError(errno.EPERM, os.strerror(errno.EPERM)), path)


def _foreign(path: Path, why: str) -> SegueError:
    return SegueError(
        f"{path} {why}, so the secret in it is not used.",
        kept="It was not changed.",
        hint="Look where it comes from and remove it; Segue makes a new one.",
    )
