"""Decides between a state file and the journal: which of them is right about what is done."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol, TypeVar

from segue.domain.amounts import format_count
from segue.domain.errors import SourceError
from segue.domain.history import SourceHistory


class CorruptState(SourceError):
    """The state file cannot be understood; `path` says which."""

    def __init__(self, path: Path, reason: str, hint: str = "", *, newer: bool = False) -> None:
        super().__init__(
            f"The state file {path} is corrupted: {reason}.",
            kept="The file was left as it is.",
            hint=hint or "Fix it, or start from the first task: segue run PLAN --restart",
        )
        self.path = path
        self.reason = reason
        self.newer = newer
        """Whether a newer version of Segue wrote it: nothing is wrong with it."""


class KeptState(Protocol):
    """What the state file of a source says about itself."""

    @property
    def run(self) -> str | None:
        """The run that last wrote it; None: it was begun without one."""

    @property
    def seq(self) -> int:
        """The event of that run it was last written for."""

    @property
    def edited(self) -> bool:
        """Whether somebody other than Segue wrote it."""

    @property
    def completed(self) -> Collection[str]:
        """The tasks that are done according to it."""


_S = TypeVar("_S", bound=KeptState)


def restore_state(
    path: Path,
    history: SourceHistory,
    load: Callable[[], _S | None],
    rebuild: Callable[[_S | None], _S],
    set_aside: Callable[[], object],
) -> str:
    """Rebuild a state file that is missing, unreadable or older than the journal; believe any other.

    `rebuild` writes the file, with what it should keep of the state it gets, and returns what is in it then.
    Returns what to say; raises CorruptState if there is nothing to rebuild an unreadable file from.
    """
    try:
        state = load()
    except CorruptState as error:
        if not history.runs or error.newer:
            raise
        set_aside()
        return _describe(f"could not be read: {error.reason}", rebuild(None), path)
    if state is None:
        known = history.marks or history.plans
        return _describe("was missing", rebuild(None), path) if known else ""
    if state.edited or (state.run is not None and state.run not in history.runs):
        tasks = ", ".join(sorted(state.completed)) or "none"
        return (
            f"The state file was edited or comes from elsewhere. Tasks done according to it: {tasks}. {path}"
        )
    if state.run is None or not history.goes_beyond(state.run, state.seq):
        return ""
    return _describe("was older than the journal", rebuild(state), path)


def _describe(what: str, state: KeptState, path: Path) -> str:
    done = len(state.completed)
    number = format_count(done, "task")
    return f"Rebuilt the state file from the journal ({number} done), because it {what}. {path}"
