"""Make a tree ready for checks with the user's setup commands, once for each state of the lock files."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec

from segue.domain.errors import SegueError
from segue.domain.proof import CheckResult, CheckState
from segue.proof.compose import Composed
from segue.proof.notes import decode_note, encode_note
from segue.proof.runners import Ended
from segue.system.files import private_folder, write_atomic
from segue.system.lane import is_dependency

_LOCKS = re.compile(
    r"(?:.*/)?(?:package-lock\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml|bun\.lockb?|package\.json"
    r"|uv\.lock|poetry\.lock|Pipfile\.lock|pdm\.lock|requirements[^/]*\.txt|pyproject\.toml|setup\.(?:cfg|py)"
    r"|Cargo\.(?:lock|toml)|go\.(?:sum|mod)|Gemfile\.lock|composer\.lock|mix\.lock)"
)

Run = Callable[[Sequence[str], Path], Awaitable[Ended]]
"""Runs a command on a tree, with the network."""


class CheckSetupFailed(SegueError):
    """A setup command failed, so the check could not be run."""

    def to_result(self, command: str, scenario: bool = False) -> CheckResult:
        """Return the result of the check."""
        reason, _, said = self.message.partition("\n")
        return CheckResult(command, None, said, CheckState.BROKEN, reason, scenario=scenario)


def check_setup(command: Sequence[str], ended: Ended) -> None:
    """Raise CheckSetupFailed if a setup command has failed."""
    if ended.exit_code != 0:
        said = "\n".join(part for part in (ended.out, ended.err) if part.strip()).strip()[-2000:]
        raise CheckSetupFailed(f"check_setup failed: {shlex.join(command)}\n{said}")


class Installed(msgspec.Struct, frozen=True):
    """What setup commands left in a tree."""

    folders: list[str]
    """Folders of dependencies, which checks see read-only."""
    others: list[str]
    """Other new files and folders, which are copied."""


class Setup:
    """The results of setup commands, by the lock files they were made from."""

    def __init__(self, commands: Sequence[Sequence[str]], scratch: Path, salt: str = "") -> None:
        """Know the commands; another salt makes them run again."""
        self._commands, self._scratch, self._salt = commands, scratch, salt

    async def install(self, composed: Composed, write: Callable[[Path], Awaitable[None]], run: Run) -> Path:
        """Return the folder with what the commands left for this tree; run them if need be."""
        place = self._scratch / "setup" / self._key(composed)
        if (place / "installed.json").exists():
            return place
        shutil.rmtree(place, ignore_errors=True)
        tree = private_folder(place) / "tree"
        await write(tree)
        for command in self._commands:
            check_setup(command, await run(command, tree))
        found = _new_in(tree, composed)
        for path in (*found.folders, *found.others):
            target = place / "new" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            (tree / path).rename(target)
        shutil.rmtree(tree, ignore_errors=True)
        write_atomic(place / "installed.json", encode_note(found))
        return place

    def _key(self, composed: Composed) -> str:
        locks = sorted((path, entry.id) for path, entry in composed.entries.items() if _LOCKS.fullmatch(path))
        facts = encode_note(([list(command) for command in self._commands], locks, self._salt))
        return hashlib.sha256(facts).hexdigest()[:32]


def place_installed(place: Path, tree: Path) -> dict[str, Path]:
    """Copy small things into a tree; return the folders that are mounted there."""
    found = decode_note((place / "installed.json").read_bytes(), Installed)
    for path in found.others:
        source, target = place / "new" / path, tree / path
        if target.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir() and not source.is_symlink():
            shutil.copytree(source, target, symlinks=True)
        else:
            shutil.copy2(source, target, follow_symlinks=False)
    return {path: place / "new" / path for path in found.folders}


def _new_in(tree: Path, composed: Composed) -> Installed:
    """Return what is in the tree and was not composed: the outermost folders and files."""
    known = {path[:at] for path in composed.entries for at, letter in enumerate(path) if letter == "/"}
    folders: list[str] = []
    others: list[str] = []
    for here, names, files in os.walk(tree):
        inside = os.path.relpath(here, tree)
        prefix = "" if inside == "." else f"{inside}/"
        for name in [name for name in names if f"{prefix}{name}" not in known]:
            path = f"{prefix}{name}"
            (folders if is_dependency(tree / path) else others).append(path)
            names.remove(name)
        others += [f"{prefix}{name}" for name in files if f"{prefix}{name}" not in composed.entries]
    return Installed(sorted(folders), sorted(path for path in others if path != ".git"))
