"""Decides between a state file and the journal: which of them is right about what is done."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import structs

from segue.domain.amounts import format_count
from segue.domain.errors import SourceError
from segue.domain.source import SourceHistory
from segue.domain.task import Notice, TaskList, TaskStatus
from segue.system.files import write_error
from segue.system.reading import LARGEST, read_file

T = TypeVar("T")
_FIELD = re.compile(r"`\$\.(\w+)|field `(\w+)`")
"""How msgspec names the field that is wrong, or lacking."""


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


def read_state(path: Path, hint: str = "", inside: Path | None = None, limit: int = LARGEST) -> bytes | None:
    """Return the contents of a state file; None if there is none, CorruptState if it cannot be read."""
    try:
        return read_file(path, inside, limit)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CorruptState(path, f"it cannot be read ({error.strerror or error})", hint) from error


def read_document(
    path: Path, schema: int, hint: str = "", inside: Path | None = None, limit: int = LARGEST
) -> dict[str, Any] | None:
    """Return the JSON object in a state file; CorruptState if it is none, or of a newer schema."""
    data = read_state(path, hint, inside, limit)
    if data is None:
        return None
    try:
        document = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise CorruptState(path, f"it is not JSON ({error})", hint) from error
    if not isinstance(document, dict):
        raise CorruptState(path, "it is not a JSON object", hint)
    found = document.get("schema", schema)
    if isinstance(found, int) and found > schema:
        reason = f"it has schema {found}, this version of Segue knows {schema}"
        raise CorruptState(path, reason, hint="Use the newer Segue that wrote it.", newer=True)
    return document


def read_fields(path: Path, kind: type[T], fields: Mapping[str, Any], hint: str = "", place: str = "") -> T:
    """Return fields of a state file as a struct; CorruptState names the first that is missing or wrong."""
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        found = _FIELD.search(str(error))
        name = ".".join(filter(None, (place, found and (found[1] or found[2]))))
        raise CorruptState(path, f"`{name}` is missing or has the wrong type", hint) from error


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
        """True if somebody other than Segue wrote it."""

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
    *,
    starts_over: bool = False,
) -> str:
    """Rebuild a state file that is missing, unreadable or older than the journal; believe any other.

    `rebuild` writes the file, with what it should keep of the state it gets, and returns what is in it then.
    Returns what to say; raises CorruptState if there is nothing to rebuild an unreadable file from, unless
    the source `starts_over` then.
    """
    try:
        state = load()
    except CorruptState as error:
        if error.newer or not (history.runs or starts_over):
            raise
        kept = set_aside()
        if not history.runs:
            rebuild(None)
            return f"{error.message} The run starts with the first task. What was there is now called {kept}."
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


def foresee_tasks(
    history: SourceHistory,
    load: Callable[[], KeptState | None],
    forget: Callable[[], None],
    look: Callable[[], TaskList],
    *,
    starts_over: bool = False,
) -> TaskList:
    """Return the tasks as a run would find them after `restore_state`; nothing is written.

    `forget` makes the source look as if it had no state file.
    """
    why = ""
    try:
        state = load()
    except CorruptState as error:
        if error.newer or not (history.runs or starts_over):
            raise
        forget()
        state, why = None, error.message
    listing = look()
    if state is not None:
        is_known = not state.edited and state.run in history.runs
        if state.run is None or not is_known or not history.goes_beyond(state.run, state.seq):
            return listing
    known = {key: mark.status for key, mark in history.marks.items() if mark.status is not TaskStatus.PENDING}
    tasks = tuple(structs.replace(task, status=known.get(task.key, task.status)) for task in listing.tasks)
    why = why or ("The state file is missing." if state is None and known else "")
    notices = [Notice(None, f"{why} What is done is taken from the journal.")] if why else []
    return structs.replace(listing, tasks=tasks, notices=(*notices, *listing.notices))


def _describe(what: str, state: KeptState, path: Path) -> str:
    done = len(state.completed)
    number = format_count(done, "task")
    return f"Rebuilt the state file from the journal ({number} done), because it {what}. {path}"


def set_aside(path: Path, why: str = "corrupt", folder: Path | None = None) -> Path:
    """Rename a state file so that it is kept, there or in a folder, but not in the way; says its new name."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    try:
        for number in count(1):
            suffix = f"-{number}" if number > 1 else ""
            target = (folder or path.parent) / f"{path.name}.{why}-{stamp}{suffix}"
            try:
                # Taking the name first, the rename can only replace this empty file of our own.
                target.touch(exist_ok=False)
            except FileExistsError:
                continue
            return path.replace(target)
    except OSError as error:
        raise write_error(error, path) from error
    raise AssertionError("unreachable")
