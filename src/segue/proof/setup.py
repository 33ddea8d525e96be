"""Make environments for checks with the user's setup commands, once for each state of what these read."""

from __future__ import annotations

import hashlib
import os
import secrets
import shlex
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec.structs import replace

from segue.domain.errors import SegueError
from segue.domain.proof import CheckResult, CheckState
from segue.domain.text import cut_tail
from segue.proof.inputs import decode_note, encode_note
from segue.proof.runners import Ended
from segue.proof.trees import TreeEntry
from segue.system.files import private_folder, write_atomic
from segue.system.lane import is_dependency

Run = Callable[[Sequence[str], Path], Awaitable[Ended]]
"""Runs a command on a tree, with the network."""
Entries = Mapping[str, TreeEntry]
_RECORD = "installed.json"
_MOST_KEPT = 4
_HOUR, _WEEK = 3600.0, 7 * 86400.0


class CheckSetupFailed(SegueError):
    """A setup command failed, so the check could not be run."""

    def to_result(self, command: str, scenario: bool = False) -> CheckResult:
        """Return the result of the check."""
        reason, _, said = self.message.partition("\n")
        return CheckResult(command, None, said, CheckState.BROKEN, reason, scenario=scenario)


def check_setup(command: Sequence[str], ended: Ended) -> None:
    """Raise CheckSetupFailed if a setup command has failed."""
    if ended.exit_code != 0:
        said = cut_tail("\n".join(part for part in (ended.out, ended.err) if part.strip()).strip(), 2000)
        raise CheckSetupFailed(f"check_setup failed: {shlex.join(command)}\n{said}")


class Installed(msgspec.Struct, frozen=True):
    """What setup commands left in a tree, and what of the tree they have looked at."""

    folders: list[str]
    """Folders of dependencies, which checks see read-only."""
    others: list[str]
    """Other new files and folders, which are copied."""
    read: dict[str, str]
    """The files that were read, with their modes and ids."""
    listed: dict[str, list[str]]
    """The folders that were listed or had such a file, with the names in them."""
    same: str = ""
    """The name of an earlier environment that is exactly the same."""
    made: float = 0
    """When the commands ran."""
    doubts: list[str] | None = None
    """What has changed since the run began and may decide more than the product does; None: not compared."""

    def fits(self, entries: Entries, names: Mapping[str, list[str]]) -> bool:
        """Return whether the commands would see the same in another tree."""
        return all(_fact(entries.get(path)) == fact for path, fact in self.read.items()) and all(
            names.get(folder, []) == known for folder, known in self.listed.items()
        )

    def find_changed(self, entries: Entries, names: Mapping[str, list[str]]) -> set[str]:
        """Return what they would see differently."""
        found = {path for path, fact in self.read.items() if _fact(entries.get(path)) != fact}
        for folder, known in self.listed.items():
            prefix = f"{folder}/" if folder else ""
            found |= {f"{prefix}{name}" for name in set(known).symmetric_difference(names.get(folder, []))}
        return found


class Environment(msgspec.Struct, frozen=True):
    """What setup commands made of one tree."""

    home: Path
    """The folder with its record."""
    facts: Installed

    @property
    def place(self) -> Path:
        """The folder with what was made."""
        return self.home.with_name(self.facts.same) if self.facts.same else self.home

    def use(self) -> Environment:
        """Note that it is used, and return it as if it had just been made."""
        for home in (self.home, self.place):
            (home / _RECORD).touch()
        return Environment(self.home, replace(self.facts, doubts=None))

    def keep(self, **facts: object) -> Environment:
        """Change its record, and return it as it is now."""
        changed = replace(self.facts, **facts)
        write_atomic(self.home / _RECORD, encode_note(changed))
        return Environment(self.home, changed)


class Setup:
    """The environments that setup commands have made, by what they read for it."""

    def __init__(
        self,
        commands: Sequence[Sequence[str]],
        scratch: Path,
        salt: str = "",
        by_check: bool = False,
        is_kept: bool = False,
    ) -> None:
        """Know the commands; another salt makes them run again.

        `by_check`: it is a check that makes an environment for itself, as Tox does. How it ends does not
        matter, and only environments are kept of what it leaves. `is_kept`: they outlive the run.
        """
        self._commands, self._by_check, self._is_kept = commands, by_check, is_kept
        facts = encode_note(([list(command) for command in commands], salt))
        self._folder = scratch / "setup" / hashlib.sha256(facts).hexdigest()[:32]

    def find(self, entries: Entries) -> Environment | None:
        """Return what the commands would make of a tree, if they have made it before."""
        names = list_names(entries)
        for record in sorted(self._folder.glob(f"*/{_RECORD}")):
            found = Environment(record.parent, decode_note(record.read_bytes(), Installed))
            if found.facts.fits(entries, names) and found.place.is_dir():
                return found.use() if self._is_kept else found
        return None

    def first(self) -> Environment | None:
        """Return the environment that the run began with; None: that is not known."""
        if self._is_kept:
            return None
        records = list(self._folder.glob(f"*/{_RECORD}"))
        found = [Environment(one.parent, decode_note(one.read_bytes(), Installed)) for one in records]
        return min(found, key=lambda one: one.facts.made, default=None)

    async def make(self, entries: Entries, write: Callable[[Path], Awaitable[None]], run: Run) -> Environment:
        """Run the commands on a tree, and return what they left."""
        home = private_folder(self._folder / f"{os.getpid()}-s{secrets.token_hex(6)}")
        tree = home / "tree"
        await write(tree)
        names = list_names(entries)
        can_tell = _forget_reads(home, tree, (*entries, *names))
        for command in self._commands:
            ended = await run(command, tree)
            if not self._by_check:
                check_setup(command, ended)
        seen = [path for path in entries if not can_tell or _was_read(tree / path)]
        folders = {path.rpartition("/")[0] for path in seen} | {""}
        folders |= {folder for folder in names if not can_tell or _was_read(tree / folder)}
        found = _new_in(
            tree, entries, {path: _fact(entries[path]) for path in seen}, {one: names[one] for one in folders}
        )
        if self._by_check:
            found = replace(found, others=[path for path in found.others if _has_environment(tree / path)])
        for path in (*found.folders, *found.others):
            target = home / "new" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            (tree / path).rename(target)
        shutil.rmtree(tree, ignore_errors=True)
        write_atomic(home / _RECORD, encode_note(found))
        return Environment(home, found)


def clear_kept(environments: Path) -> None:
    """Delete environments that nobody has used for a week, and of many the older ones.

    What was used within the last hour may be in use.
    """
    for folder in environments.glob("*/setup/*"):
        used = {record.parent: record.stat().st_mtime for record in folder.glob(f"*/{_RECORD}")}
        for number, home in enumerate(sorted(used, key=lambda one: -used[one])):
            age = time.time() - used[home]
            if age > (_HOUR if number >= _MOST_KEPT else _WEEK):
                shutil.rmtree(home, ignore_errors=True)


def _has_environment(place: Path) -> bool:
    """Return whether there are dependencies in a folder, or in one of those in it."""
    inner = [one for one in place.iterdir() if one.is_dir()] if place.is_dir() else []
    return any(is_dependency(one) for one in (*inner, *(two for one in inner for two in one.iterdir())))


def list_names(entries: Entries) -> dict[str, list[str]]:
    """Return the names in every folder of a tree; its root is the empty name."""
    found: dict[str, set[str]] = {"": set()}
    for path in entries:
        while path:
            folder, _, name = path.rpartition("/")
            known = found.setdefault(folder, set())
            if name in known:
                break
            known.add(name)
            path = folder
    return {folder: sorted(known) for folder, known in found.items()}


def _fact(entry: TreeEntry | None) -> str:
    return f"{entry.mode} {entry.id}" if entry is not None else ""


def _forget_reads(home: Path, tree: Path, paths: Sequence[str]) -> bool:
    """Make every file look as if it was never read; return whether this place notes reads at all."""
    probe = home / "probe"
    probe.write_text("x")
    for place in (probe, *(tree / path for path in paths)):
        if not place.is_symlink() and place.exists():
            os.utime(place, ns=(0, place.stat().st_mtime_ns))
    probe.read_text()
    return _was_read(probe)


def _was_read(place: Path) -> bool:
    """Return whether something was read since, or is not there any more; links are always followed."""
    try:
        found = place.lstat()
    except OSError:
        return True
    return found.st_atime_ns != 0


def place_installed(environment: Environment, tree: Path) -> dict[str, Path]:
    """Copy small things into a tree; return the folders that are mounted there."""
    made = environment.place / "new"
    for path in environment.facts.others:
        source, target = made / path, tree / path
        if target.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir() and not source.is_symlink():
            shutil.copytree(source, target, symlinks=True)
        else:
            shutil.copy2(source, target, follow_symlinks=False)
    return {path: made / path for path in environment.facts.folders}


def _new_in(tree: Path, entries: Entries, read: dict[str, str], listed: dict[str, list[str]]) -> Installed:
    """Return what is in the tree and was not composed: the outermost folders and files."""
    known = {path[:at] for path in entries for at, letter in enumerate(path) if letter == "/"}
    folders: list[str] = []
    others: list[str] = []
    for here, names, files in os.walk(tree):
        inside = os.path.relpath(here, tree)
        prefix = "" if inside == "." else f"{inside}/"
        for name in [name for name in names if f"{prefix}{name}" not in known]:
            path = f"{prefix}{name}"
            (folders if is_dependency(tree / path) else others).append(path)
            names.remove(name)
        others += [f"{prefix}{name}" for name in files if f"{prefix}{name}" not in entries]
    others = sorted(path for path in others if path != ".git")
    return Installed(sorted(folders), others, read, listed, made=time.time())
