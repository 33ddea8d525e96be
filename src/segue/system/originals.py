"""What is at a path before an agent starts, so that it can be told afterwards what took its place.

Links on the way that were there before are the user's, and are followed to where they led then. Anything else
that is a link, a pipe or another name of some file was put there by the agent: it is not opened.
"""

# Every launch looks twice at a dozen paths.
# ruff: noqa: PTH115, PTH118, PTH120
from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

import msgspec

from segue.system.beneath import Beneath, UnsafeFile, name_kind
from segue.system.files import private_folder, write_atomic, write_error

_MOST_LINKS = 40
"""As many as Linux follows."""
_LONGEST = 100
"""Characters of a link's target that are shown."""
_TRIES = 5
FILE = "a file"
FOLDER = "a folder"
BORROWED = "another name of a file elsewhere"


class Original(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is at a path at one moment."""

    real: str
    """Where the path leads."""
    links: dict[str, str] = {}
    """The links on the way: the real place of each → where it points."""
    kind: str = ""
    """`a file`, `a folder` and so on; empty: nothing is there."""
    digest: str | None = None
    """Of the content of a file; None for anything else, and for a file that is too large to be kept."""
    mode: int = 0
    names: int = 1
    """How many names the file has: another one may be anywhere."""

    def is_like(self, other: Original) -> bool:
        """Return whether the same content is there, reached on the same way."""
        same = self.real == other.real and self.links == other.links and self.kind == other.kind
        return same and self.digest == other.digest


class Originals:
    """Keeps the content of files in a folder out of the agent's way, each under its digest."""

    def __init__(self, folder: Path, limit: int) -> None:
        self._folder = folder
        self._limit = limit
        self._known: dict[str, tuple[tuple[int, ...], str | None]] = {}
        self._stored: set[str] = set()

    def look(self, path: str, before: Original | None = None) -> Original:
        """Return what is there now, and keep its content.

        Where the way is not what it was before, nothing is read; nor is another file by a new name kept.
        """
        real, links = trace(path)
        if before is not None and (real, links) != (before.real, before.links):
            return Original(real, links)
        with Beneath(_anchor(real)) as disk:
            now = disk.status(_below(real))
            if now is None:
                return Original(real, links)
            mode, kind, digest = now.st_mode, name_kind(now.st_mode), None
            if stat.S_ISREG(mode):
                borrowed = before is not None and now.st_nlink > before.names
                digest = self._digest(disk, _below(real), now, keep=not borrowed)
                if before is not None and borrowed and digest != before.digest:
                    kind, digest = BORROWED, None
        return Original(real, links, kind, digest, stat.S_IMODE(mode), now.st_nlink if kind == FILE else 1)

    def content(self, digest: str | None) -> bytes | None:
        """Return the content that was kept; None if it was not."""
        try:
            return (self._folder / digest).read_bytes() if digest else None
        except OSError:
            return None

    def place(self, digest: str) -> Path:
        """Return where content is kept."""
        return self._folder / digest

    def put_back(self, before: Original, content: bytes | None = None) -> str:
        """Make the path what it was, with the content it had or another; returns what was kept beside it.

        Nothing is followed: links that were there before are made again, others are removed.
        """
        for left in reversed(range(_TRIES)):
            try:
                return self._put_back(before, content)
            except OSError as error:  # somebody changes it all the time
                if not left:
                    raise write_error(error, Path(before.real)) from error
        return ""

    def _put_back(self, before: Original, content: bytes | None) -> str:
        kept = ""
        for place, target in before.links.items():
            with Beneath(_anchor(place)) as disk:
                disk.make_folders(os.path.dirname(_below(place)))
                self._keep_file(disk, _below(place))
                kept = disk.make_link(_below(place), target) or kept
        data = self.content(before.digest) if content is None else content
        below = _below(before.real)
        with Beneath(_anchor(before.real)) as disk:
            if before.kind == FOLDER:
                return disk.make_folders(below) or kept
            if data is not None:
                kept = disk.make_folders(os.path.dirname(below)) or kept
                now = disk.status(below)
                if now is not None and stat.S_ISDIR(now.st_mode):
                    kept = disk.remove(below) or kept
                disk.write(below, data, before.mode or None)
            elif not before.kind:
                kept = disk.remove(below) or kept
        return kept

    def _keep_file(self, disk: Beneath, path: str) -> None:
        """Keep the content of a file that is in the way of a link, unless it is that of another one."""
        now = disk.status(path)
        if now is not None and stat.S_ISREG(now.st_mode) and now.st_nlink == 1:
            self._digest(disk, path, now, keep=True)

    def _digest(self, disk: Beneath, path: str, now: os.stat_result, keep: bool) -> str | None:
        """Return a digest of a file and keep its content; one that nobody touched is not read again."""
        mark = (now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns, keep)
        known = self._known.get(path)
        if known is not None and known[0] == mark:
            return known[1]
        try:
            data = disk.read(path, self._limit)
        except (OSError, UnsafeFile):
            digest = None
        else:
            digest = hashlib.sha256(data).hexdigest()
            if keep and digest not in self._stored:
                self._store(digest, data)
        self._known[path] = mark, digest
        return digest

    def _store(self, digest: str, data: bytes) -> None:
        if not (self._folder / digest).exists():
            private_folder(self._folder)
            write_atomic(self._folder / digest, data)
        self._stored.add(digest)


def trace(path: str) -> tuple[str, dict[str, str]]:
    """Return where a path leads, and the links on the way."""
    links: dict[str, str] = {}
    whole = os.path.abspath(path)  # noqa: PTH100
    real, rest = _anchor(whole), _parts(whole)
    while rest:
        part = rest.pop()
        if part == "..":
            real = os.path.dirname(real)
            continue
        here = os.path.join(real, part)
        try:
            target = os.readlink(here) if len(links) < _MOST_LINKS and here not in links else ""
        except (OSError, ValueError):
            target = ""
        if not target:
            real = here
            continue
        links[here] = target
        if os.path.isabs(target):  # noqa: PTH117
            real = _anchor(target)
        rest += _parts(target)
    return real, links


def nothing_at(path: str) -> Original:
    """Return that nothing was there, in a folder that is what it was."""
    folder, name = os.path.split(path)
    real, links = trace(folder)
    return Original(f"{real.rstrip('/')}/{name}", links)


def find_replaced(before: Original, now: Original) -> tuple[str, str] | None:
    """Return the place where something else is now, and what it is; None if it is the same kind of thing."""
    for place, target in now.links.items():
        if before.links.get(place) != target:
            return place, f"a link to {ascii(target)[1:-1][:_LONGEST]}"
    for place in before.links:
        if place not in now.links:
            with Beneath(_anchor(place)) as disk:
                found = disk.status(_below(place))
            return place, name_kind(found.st_mode) if found else "nothing"
    created = not before.kind and now.kind in (FILE, FOLDER)
    return None if not now.kind or now.kind == before.kind or created else (now.real, now.kind)


def find_unreadable(before: Original, now: Original) -> tuple[str, str] | None:
    """Return the place of a file that has become too large to be read, and what it is now."""
    grown = now.kind == FILE and now.digest is None and (before.digest is not None or not before.kind)
    return (now.real, "a file that is too large to be read") if grown else None


def _parts(path: str) -> list[str]:
    """Return the parts of a path, the last one first."""
    return [part for part in reversed(os.path.splitdrive(path)[1].split(os.sep)) if part not in ("", ".")]  # noqa: PTH206


def _anchor(path: str) -> str:
    return Path(path).anchor or os.sep


def _below(path: str) -> str:
    return path[len(_anchor(path)) :]
