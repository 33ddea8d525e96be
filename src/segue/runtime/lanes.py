"""Make a lane ready for a task: files that git does not have, and setup commands."""

from __future__ import annotations

import asyncio
import hashlib
import shlex
import shutil
import sys
from collections.abc import Sequence
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path

from segue.config.settings import Settings
from segue.domain.errors import NeedsHuman, SegueError
from segue.system.beneath import Beneath, read_below
from segue.system.files import private_folder, write_atomic
from segue.system.git.repository import Repository
from segue.system.isolation.isolate import MOUNTING, Isolation, capture_inside
from segue.system.lane import has_content, list_ignored, list_shared, match
from segue.system.process.capture import inside_environment, probe
from segue.system.redact import Redactor
from segue.system.sweep import size_of

_LOCK_FILES = (
    *("package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock", "bun.lock", "bun.lockb"),
    *(
        "deno.lock",
        "uv.lock",
        "poetry.lock",
        "pdm.lock",
        "Pipfile.lock",
        "requirements*.txt",
        "pyproject.toml",
    ),
    *("setup.py", "setup.cfg", "Cargo.lock", "go.sum", "Gemfile.lock", "composer.lock", "mix.lock"),
    *("pubspec.lock", "Package.resolved", "gradle.lockfile", "packages.lock.json", "flake.lock"),
)
_MOST_LOCK_FILES = 500
_LARGEST_LOCK_FILE = 64 * 1024**2
_MOST_COPIED = 1000
_LARGEST_COPY = 20 * 1024**3
_COPY_TIMEOUT = 3600.0
_SAID_LINES = 15


class LaneSetup:
    """What the lanes of a run are given before a task begins there."""

    def __init__(
        self, home: Repository, settings: Settings, isolation: Isolation, redactor: Redactor
    ) -> None:
        """`home` is the user's work tree."""
        self._home, self._settings = home, settings
        self._isolation, self._redactor = isolation, redactor

    async def set_up(self, lane: Repository) -> None:
        """Copy, link and install what a lane lacks; to be called when it is at the commit of its next task.

        What was done stays done: that costs a look at the lock files.
        """
        await asyncio.to_thread(self._copy_all, lane.root)
        if not self._is_mounted:
            await asyncio.to_thread(self._link_all, lane.root)
        if self._settings.lane_setup:
            await self._install(lane)

    async def describe_missing(self, lane: Repository) -> str:
        """Say which files of the user's work tree the lanes do not have; usually nothing."""
        settings = self._settings
        if self._is_mounted or settings.lane_setup or settings.lane_copy or settings.lane_link:
            return ""
        found = await asyncio.to_thread(list_shared, self._home.root, lane.root)
        if not found:
            return ""
        names = ", ".join(found[:5]) + (" …" if len(found) > 5 else "")
        return (
            f"The lanes do not have {names}, which git ignores. To give them to each lane, set lane_setup, "
            "lane_copy or lane_link (`segue help parallel`)."
        )

    @property
    def _is_mounted(self) -> bool:
        """Whether the lanes see what they share without links."""
        return self._isolation.chosen.means in MOUNTING

    def _copy_all(self, lane: Path) -> None:
        paths = self._lacking(lane, self._settings.lane_copy, "lane_copy")
        self._check_ignored(lane, [self._spell(path) for path in paths], "lane_copy")
        for path in paths:
            source = self._home.root / path
            draft = private_folder(lane.with_name(f"{lane.name}.copy")) / source.name
            if size_of(source) > _LARGEST_COPY:
                raise _refuse(f"{path} is too large to be copied for each lane.", "Share it with lane_link")
            _remove(draft)
            _copy(source, draft)
            _replace(lane, path, draft)

    def _link_all(self, lane: Path) -> None:
        paths = self._lacking(lane, self._settings.lane_link, "lane_link")
        self._check_ignored(lane, paths, "lane_link")
        for path in paths:
            draft = private_folder(lane.with_name(f"{lane.name}.copy")) / Path(path).name
            _remove(draft)
            draft.symlink_to(self._home.root / path)
            _replace(lane, path, draft)

    def _lacking(self, lane: Path, globs: Sequence[str], setting: str) -> list[str]:
        """Return what fits the globs and is not in the lane."""
        found = list(islice(match(self._home.root, globs), _MOST_COPIED + 1))
        if len(found) > _MOST_COPIED:
            raise _refuse(f"More than {_MOST_COPIED} files fit {setting}.", "Name their folder instead")
        return [path for path in found if not (has_content(lane / path) or (lane / path).is_symlink())]

    def _check_ignored(self, lane: Path, paths: Sequence[str], setting: str) -> None:
        """Refuse what git does not ignore in the lane: it would be committed with the work of a task."""
        ignored = list_ignored(lane, paths)
        open_paths = [path for path in paths if path not in ignored]
        if open_paths:
            why = (
                f"git does not ignore {open_paths[0]} in a lane, so {setting} would make it part of the work."
            )
            # A pattern that ends with a slash fits folders only, not links to them.
            raise _refuse(why, f"Add /{open_paths[0].rstrip('/')} to .gitignore or .git/info/exclude")

    def _spell(self, path: str) -> str:
        return f"{path}/" if (self._home.root / path).is_dir() else path

    async def _install(self, lane: Repository) -> None:
        note = lane.root.with_name(f"{lane.root.name}.setup")
        digest = await self._digest(lane)
        if note.is_file() and note.read_text() == digest:
            return
        note.unlink(missing_ok=True)
        for argv in self._settings.lane_setup:
            await self._run(argv, lane.root)
        write_atomic(note, (await self._digest(lane)).encode())

    async def _digest(self, lane: Repository) -> str:
        """Return a digest of the commands and of all lock files, as they are in the lane."""
        found = hashlib.sha256(repr(self._settings.lane_setup).encode())
        listed = (await lane.git("ls-files", "-z")).split("\0")
        names = [path for path in listed if _is_lock_file(path)]
        for path in names[:_MOST_LOCK_FILES]:
            file = lane.root / path
            content = read_below(lane.root, file, _LARGEST_LOCK_FILE)
            found.update(path.encode() + b"\0" + hashlib.sha256(content).digest())
        return found.hexdigest()

    async def _run(self, argv: Sequence[str], lane: Path) -> None:
        limit = self._settings.check_timeout
        try:
            done = await capture_inside(
                self._isolation, argv, lane, inside_environment(), limit, network=True, shares=False
            )
        except (SegueError, TimeoutError) as error:
            raise _failed(argv, lane, str(error) or f"it took longer than {limit:g} s") from error
        if done.exit_code != 0:
            said = self._redactor.text((done.out + b"\n" + done.err).decode("utf-8", "replace"))
            lines = [line for line in said.splitlines() if line.strip()][-_SAID_LINES:]
            raise _failed(argv, lane, "\n".join([f"exit code {done.exit_code}", *lines]))


def _is_lock_file(path: str) -> bool:
    name = path.rpartition("/")[2]
    return any(fnmatch(name, pattern) for pattern in _LOCK_FILES)


def _copy(source: Path, target: Path) -> None:
    """Copy a file or folder; file systems that can share the blocks do."""
    if sys.platform.startswith("linux"):
        done = probe(["cp", "-a", "--reflink=auto", "--", str(source), str(target)], _COPY_TIMEOUT)
        if done is not None and done.exit_code == 0:
            return
        _remove(target)
    try:
        if source.is_dir():
            shutil.copytree(source, target, symlinks=True)
        else:
            shutil.copy2(source, target, follow_symlinks=False)
    except (OSError, shutil.Error) as error:
        raise _refuse(
            f"{source} could not be copied: {error}.", "Correct lane_copy, or make it readable"
        ) from error


def _replace(lane: Path, path: str, draft: Path) -> None:
    """Put the draft in its place, where at most an empty file or folder is.

    A link that an agent committed in place of a folder above it is not followed.
    """
    try:
        with Beneath(lane) as folder:
            folder.make_folders(str(Path(path).parent), clear=False)
            folder.remove(path)
            folder.move_in(path, draft)
    except OSError as error:
        why = f"{path} cannot be put into the lane {lane}: {error.strerror or error}."
        raise _refuse(why, "Look what the lane has there") from error


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _refuse(message: str, hint: str) -> NeedsHuman:
    return NeedsHuman(message, kept="All work so far is kept.", hint=f"{hint}, then: segue resume")


def _failed(argv: Sequence[str], lane: Path, said: str) -> NeedsHuman:
    return NeedsHuman(
        f"The setup of a lane failed: {shlex.join(argv)}\n{said}",
        kept=f"The lane is as the command left it, in {lane}; all work so far is kept.",
        hint="Correct lane_setup or what it needs, then: segue resume",
    )
