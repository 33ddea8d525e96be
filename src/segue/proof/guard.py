"""Guards every launch: what an agent must not touch is kept before it and compared after it."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from segue.domain.outcome import Failure, FailureKind
from segue.domain.proof import Tampering
from segue.domain.task import Task, TaskList
from segue.proof.contract import Contract, ContractFile
from segue.proof.inputs import decode_note, encode_note
from segue.proof.rights import take_back_rights
from segue.system.files import is_led, private_folder
from segue.system.git.guard import GitGuard, GitState, settle_surroundings
from segue.system.git.nested import GitViolation
from segue.system.originals import Original

_ABOUT_GIT = re.compile(r"\b(hooks?|husky|lefthook|pre-commit|git config\w*|lfs)\b", re.IGNORECASE)


class _Kept(msgspec.Struct, frozen=True):
    """What was there before a launch, for this process and the one that may have to continue its work."""

    step: str
    git: GitState
    files: dict[str, Original]
    ways: dict[str, str] = {}
    """Where the places that the settings name lead."""
    began: int = 0
    """When that was, in nanoseconds, by the clock of the file system."""


class LaunchGuard:
    """Guards one work tree."""

    def __init__(
        self, folder: Path, git: GitGuard | None, contract: Contract, places: Iterable[Path] = ()
    ) -> None:
        """`git` is None where the agents work elsewhere; `places` are opened for agents, or written by us."""
        self._file = folder / "before.json"
        self._git = git
        self._contract = contract
        self._places = tuple(places)
        self._kept: _Kept | None = None

    @property
    def head(self) -> str:
        """The commit that is checked out now; empty where the agents work elsewhere."""
        return self._git.head if self._git is not None else ""

    def digests(self) -> dict[str, str]:
        """Return digests of the files of the contract that exist."""
        return {path: one.digest for path, one in self._contract.keep().items() if one.digest}

    async def prepare(self) -> None:
        """Learn what the user has done already, before the first agent works."""
        if self._git is not None:
            await self._git.prepare()

    def before(self, step: str) -> None:
        """Keep what is there before a step's agent starts."""
        git = self._git.look() if self._git is not None else GitState()
        self._kept = _Kept(step, git, self._contract.keep(), self._look_at_ways(), self._look_at_clock())
        # Half a note is none, and does no harm: the step has not begun yet.
        self._file.write_bytes(encode_note(self._kept))

    def _look_at_clock(self) -> int:
        """Return what time it is for files: their clock may be behind ours by a hundredth of a second."""
        private_folder(self._file.parent)
        self._file.touch(mode=0o600)
        self._file.write_bytes(b"")
        return self._file.stat().st_ctime_ns

    async def after(
        self, step: str, task: Task | None, label: str, seconds: float | None = None
    ) -> tuple[tuple[Tampering, ...], Failure | None]:
        """Compare; what was touched is put back and named, and fails the attempt where that is due.

        `seconds` is how long the agent worked.
        """
        kept = self._kept if self._kept is not None and self._kept.step == step else self._read(step)
        if kept is None:
            return (), None
        ended = kept.began / 1e9 + seconds if kept.began and seconds else None
        violations = await self._git.compare(kept.git, label, ended) if self._git is not None else []
        found = self._contract.restore(kept.files, task)
        found += [Tampering(one.subject, one.text) for one in violations]
        found += self._compare_ways(kept.ways)
        if self._git is not None and kept.began:
            place = self._git.root, Path(kept.git.own)
            rights = await asyncio.to_thread(take_back_rights, *place, kept.began)
            found += [Tampering("rights", text) for text in rights]
        self._file.unlink(missing_ok=True)
        fatal = [one.text for one in violations if one.fails and not _is_asked_for(one, task)]
        failure = Failure(FailureKind.TAMPERED, " ".join(fatal)) if fatal else None
        return tuple(found), failure

    def _look_at_ways(self) -> dict[str, str]:
        return {str(place): _lead(place) for place in self._places}

    def _compare_ways(self, before: Mapping[str, str]) -> Iterator[Tampering]:
        """Name what leads elsewhere now: nothing is opened or written there."""
        for place, now in self._look_at_ways().items():
            if now != before.get(place, now) and is_led(Path(place)):
                text = f"The agent made {place} lead to {now}, which is not followed."
                yield Tampering("settings", text, place)

    def _read(self, step: str) -> _Kept | None:
        """Read what another process kept before it launched this step."""
        kept = _read(self._file)
        return kept if kept is not None and kept.step == step else None


def _lead(place: Path) -> str:
    return "a named pipe" if place.is_fifo() else os.path.realpath(place)


def _is_asked_for(violation: GitViolation, task: Task | None) -> bool:
    """Return whether a task is about hooks or settings of git: they are put back, but nobody is to blame."""
    named = task is not None and _ABOUT_GIT.search(f"{task.title} {task.text}") is not None
    return named and violation.subject in ("git hooks", "git configuration")


def settle_settings(folder: Path) -> str:
    """Put back what an agent did to settings in a launch that nobody concluded; returns what to say.

    So is any other file of the contract that something else took the place of: it could not be opened.
    """
    kept = [_read(folder / "before.json"), *map(_read, sorted(folder.glob("lane-*/before.json")))]
    said = [
        text for one in kept if one is not None and _is_there(one) for text in _settle(one, folder / "kept")
    ]
    return " ".join(said)


def _is_there(kept: _Kept) -> bool:
    """Return whether there is still a work tree: a lane that was removed is not made again."""
    trees = [Path(name).parent for name in kept.git.files if name.endswith("/.git")]
    return not trees or any(tree.is_dir() for tree in trees)


def _settle(kept: _Kept, folder: Path) -> list[str]:
    files = [ContractFile(Path(name), "settings") for name in kept.files]
    places = Contract(folder, files, lambda: TaskList(())).restore_places(kept.files)
    settings = [file for file in files if file.path.suffix == ".toml"]
    found = Contract(folder, settings, lambda: TaskList(())).restore(kept.files, None)
    surroundings = settle_surroundings(kept.git, folder)
    root = next((Path(name).parent for name in kept.git.files if name.endswith("/.git")), None)
    rights = take_back_rights(root, Path(kept.git.own), kept.began) if root and kept.began else []
    return [*surroundings, *rights, *(one.text for one in (*places, *found))]


def _read(file: Path) -> _Kept | None:
    try:
        return decode_note(file.read_bytes(), _Kept)
    except (OSError, msgspec.MsgspecError):
        return None
