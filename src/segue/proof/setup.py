"""Make environments for checks with the user's setup commands: one per state of the manifests."""

from __future__ import annotations

import hashlib
import os
import secrets
import shlex
import shutil
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from segue.domain.errors import SegueError
from segue.domain.proof import CheckResult, CheckState
from segue.domain.text import cut_tail
from segue.proof.inputs import decode_note, encode_note
from segue.proof.runners import Ended
from segue.proof.trees import TreeEntry
from segue.system.files import private_folder, write_atomic
from segue.system.lane import is_dependency

Entries = Mapping[str, TreeEntry]
_RECORD = "installed.json"
_MANIFESTS = """
    package.json package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml pnpm-workspace.yaml bun.lock*
    *.lock pyproject.toml requirements* constraints* setup.py setup.cfg Pipfile* poetry.lock environment.y*ml
    go.* Cargo.* Gemfile* *.gemspec *.csproj *.sln packages.lock.json composer.json composer.lock pom.xml
    build.gradle* settings.gradle* mix.exs mix.lock .npmrc .yarnrc* .python-version .nvmrc .tool-versions
"""
_MOST_KEPT = 4
_HOUR, _WEEK = 3600.0, 7 * 86400.0


class CheckSetupFailed(SegueError):
    """A setup command failed, so the check could not be run."""

    def to_result(self, command: str, scenario: bool = False) -> CheckResult:
        """Return the result of the check."""
        reason, _, output = self.message.partition("\n")
        return CheckResult(command, None, output, CheckState.BROKEN, reason, scenario=scenario)


class Environment(msgspec.Struct, frozen=True):
    """What setup commands made of a tree."""

    folder: str
    """Where it is."""
    folders: tuple[str, ...]
    """Folders of dependencies, which checks see read-only."""
    others: tuple[str, ...]
    """Other new files and folders, which are copied."""

    @property
    def place(self) -> Path:
        """The folder that has it."""
        return Path(self.folder)

    def place_in(self, tree: Path) -> dict[str, Path]:
        """Copy small things into a tree; return the folders that are mounted there."""
        for path in self.others:
            source, target = self.place / path, tree / path
            if target.exists():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir() and not source.is_symlink():
                shutil.copytree(source, target, symlinks=True)
            else:
                shutil.copy2(source, target, follow_symlinks=False)
        return {path: self.place / path for path in self.folders}


def find_manifests(entries: Entries) -> dict[str, str]:
    """Return the files that say what is to be installed, with their ids."""
    globs = _MANIFESTS.split()
    names = {path: path.rpartition("/")[2] for path in entries if "node_modules/" not in path}
    return {
        path: entries[path].id for path, name in names.items() if any(fnmatchcase(name, one) for one in globs)
    }


class Setup:
    """The environments that setup commands have made, by the manifests that they were made from."""

    def __init__(self, commands: Sequence[Sequence[str]], folder: Path) -> None:
        """Know the commands, and the folder in which environments are kept."""
        self._commands = [tuple(command) for command in commands]
        named = {word.removeprefix("./") for command in self._commands for word in command}
        self._named = frozenset(named)
        self._folder = folder / "setup"

    def key(self, entries: Entries) -> str:
        """Return the name of the environment of a tree, by the commands, what they name, and manifests."""
        named = {path: entries[path].id for path in self._named & entries.keys()}
        facts = encode_note((self._commands, sorted({**find_manifests(entries), **named}.items())))
        return hashlib.sha256(facts).hexdigest()[:32]

    def find(self, entries: Entries) -> Environment | None:
        """Return the environment of a tree, if it was made before."""
        record = self._folder / self.key(entries) / _RECORD
        if not record.exists():
            return None
        record.touch()
        return decode_note(record.read_bytes(), Environment)

    async def make(
        self,
        entries: Entries,
        write: Callable[[Path], Awaitable[None]],
        run: Callable[[Sequence[str], Path], Awaitable[Ended]],
    ) -> Environment:
        """Run the commands on a tree, and keep what they leave."""
        home = private_folder(self._folder / f"{os.getpid()}-s{secrets.token_hex(6)}")
        final, tree = self._folder / self.key(entries), home / "tree"
        await write(tree)
        for command in self._commands:
            ended = await run(command, tree)
            if ended.exit_code != 0:
                parts = [part for part in (ended.out, ended.err) if part.strip()]
                shutil.rmtree(home, ignore_errors=True)
                output = cut_tail("\n".join(parts).strip(), 2000)
                raise CheckSetupFailed(f"check_setup failed: {shlex.join(command)}\n{output}")
        folders, others = _find_new(tree, entries)
        for path in (*folders, *others):
            target = home / "new" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            (tree / path).rename(target)
        shutil.rmtree(tree, ignore_errors=True)
        environment = Environment(str(final / "new"), tuple(folders), tuple(others))
        write_atomic(home / _RECORD, encode_note(environment))
        try:
            home.rename(final)
        except OSError:  # another lane was faster
            shutil.rmtree(home, ignore_errors=True)
        return environment


def clear_kept(environments: Path) -> None:
    """Delete environments that were not used for a week, and of many the older ones.

    What was used within the last hour may be in use.
    """
    for folder in environments.glob("*/setup"):
        used = {record.parent: record.stat().st_mtime for record in folder.glob(f"*/{_RECORD}")}
        for number, home in enumerate(sorted(used, key=lambda home: -used[home])):
            age = time.time() - used[home]
            if age > (_HOUR if number >= _MOST_KEPT else _WEEK):
                shutil.rmtree(home, ignore_errors=True)


def _find_new(tree: Path, entries: Entries) -> tuple[list[str], list[str]]:
    """Return what is in the tree and was not composed, the outermost: dependencies, and others."""
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
    return sorted(folders), sorted(path for path in others if path != ".git")
