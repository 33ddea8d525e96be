"""The state.json of a Spec Kit feature: what became of each task, and the branch the next one builds on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from segue.domain.errors import SourceError
from segue.domain.source import SourceHistory
from segue.domain.task import Completion, Notice, TaskStatus
from segue.domain.verdict import Verdict
from segue.sources.speckit.tasks import BoxTask, ParsedTasks
from segue.sources.state_file import CorruptState, read_document, read_fields
from segue.system.reading import write_inside

SCHEMA = 1
NAME = "state.json"
CANNOT_PROCEED = "Cannot proceed: state file is missing or corrupted."
FAILED = "failed"

_HINT = "Fix it, or move it away: the ticks in tasks.md are kept, and `segue run` starts a new one."
_ENTRY = ("status", "text", "agent_id", "url", "branch", "commit", "error", "updated", "attempts", "verdict")
"""The fields of a task in the file, in this order."""


class _StateFile(Struct):
    """The fields of the file, as far as they are ours."""

    tasks: dict[str, dict[str, Any]]
    run: str | None = None
    seq: int = 0
    head_branch: str | None = None
    digest: str | None = None
    schema: Literal[1] = 1


class UnusableState(SourceError):
    """The state file is missing or corrupted although it is needed."""


class TaskRecord(Struct, frozen=True):
    """The record of one task."""

    status: str
    """`done`, `failed`, `skipped` or `pending`."""
    text: str | None = None
    """The fingerprint of the task's line: another task with the same id is another task."""
    agent_id: str | None = None
    """The vendor's id of a cloud agent; the session of another one."""
    url: str | None = None
    """The page of a cloud agent."""
    branch: str | None = None
    commit: str | None = None
    attempts: int = 0
    verdict: Mapping[str, Any] | None = None
    error: str | None = None
    updated: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields of others, kept when the file is written again."""

    @property
    def is_done(self) -> bool:
        """True if the task was completed."""
        return self.status == TaskStatus.DONE

    def document(self) -> dict[str, Any]:
        """Return the fields as they are in the file."""
        return {**{name: getattr(self, name) for name in _ENTRY}, **self.extra}


class SpecState(Struct, frozen=True):
    """The progress of a feature."""

    tasks: Mapping[str, TaskRecord] = field(default_factory=dict)
    """By key, in the order in which they were last recorded."""
    head_branch: str | None = None
    run: str | None = None
    seq: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)
    origin: Mapping[str, Any] | None = None
    """The document as it was read; None for a state that has not been in a file yet."""

    @property
    def edited(self) -> bool:
        """True if somebody other than Segue wrote the file it was read from."""
        return self.origin is not None and self.origin.get("digest") != _digest(self.origin)

    @property
    def completed(self) -> frozenset[str]:
        """The keys of all completed tasks."""
        return frozenset(key for key, record in self.tasks.items() if record.is_done)

    @property
    def settled(self) -> frozenset[str]:
        """The keys of all tasks that are completed or left out."""
        ends = (TaskStatus.DONE, TaskStatus.SKIPPED)
        return frozenset(key for key, record in self.tasks.items() if record.status in ends)

    def has(self, key: str, text: str) -> bool:
        """Return whether this very task is completed; a record written by hand may lack the fingerprint."""
        record = self.tasks.get(key)
        return record is not None and record.is_done and record.text in (None, text)

    def skips(self, key: str, text: str) -> bool:
        """Return whether a person decided to leave this very task out."""
        record = self.tasks.get(key)
        return record is not None and record.status == TaskStatus.SKIPPED and record.text in (None, text)

    def after(self, key: str, text: str, completion: Completion) -> SpecState:
        """Return the state once the end of a task is recorded."""
        old = self.tasks.get(key)
        # The record of a later task is not undone when an earlier step is repeated after a crash.
        if old and old.is_done and completion.run == self.run and completion.seq < self.seq:
            return self
        record = _record(text, completion, old)
        rest = {name: other for name, other in self.tasks.items() if name != key}
        tasks = dict(self.tasks) if record == old else {**rest, key: record}
        return replace(
            self,
            tasks=tasks,
            head_branch=self._head(old, record, rest),
            run=completion.run,
            seq=completion.seq,
        )

    def continued(self, history: SourceHistory, lines: Mapping[str, str]) -> SpecState:
        """Return the state with all that the journal knows; `lines` are fingerprints of the tasks of now."""
        state = self
        for key, completion in history.completions().items():
            state = state.after(key, completion.digest or lines.get(key, ""), completion)
        run, seq = history.last
        return replace(state, run=run, seq=seq)

    def _head(self, old: TaskRecord | None, record: TaskRecord, rest: Mapping[str, TaskRecord]) -> str | None:
        if record.is_done:
            return record.branch or self.head_branch
        if old and old.is_done and old.branch and old.branch == self.head_branch:
            done = [other.branch for other in rest.values() if other.is_done and other.branch]
            return done[-1] if done else None
        return self.head_branch

    def document(self) -> dict[str, Any]:
        """Return the fields of the file, but for the digest."""
        return {
            "schema": SCHEMA,
            "run": self.run,
            "seq": self.seq,
            "head_branch": self.head_branch,
            "tasks": {key: record.document() for key, record in self.tasks.items()},
            **self.extra,
        }


def load(path: Path, inside: Path | None = None) -> SpecState | None:
    """Read the state file; None if there is none, CorruptState if it cannot be understood."""
    document = read_document(path, SCHEMA, _HINT, inside)
    return None if document is None else _from_document(path, document)


def unusable(error: CorruptState) -> UnusableState:
    """Return the refusal to run a feature with a corrupted state file that cannot be rebuilt."""
    return UnusableState(CANNOT_PROCEED, kept=error.kept, hint=f"{error.message} {error.hint}")


def save(path: Path, state: SpecState, inside: Path) -> None:
    """Write the state file, whole or not at all, below a folder."""
    fields = state.document()
    fields["digest"] = _digest(fields)
    text = json.dumps(fields, indent=2) + "\n"
    write_inside(path, inside, text.encode(), durable=False)  # the journal has it too


def _record(text: str, completion: Completion, old: TaskRecord | None) -> TaskRecord:
    """Return the record of an end; the same end recorded again is the same record."""
    status = (
        FAILED if completion.error and completion.status is TaskStatus.PENDING else completion.status.value
    )
    record = TaskRecord(
        status=status,
        text=text,
        agent_id=completion.agent_id or completion.session,
        url=completion.url,
        branch=completion.branch,
        commit=completion.commit,
        attempts=completion.attempts,
        verdict=_verdict(completion.verdict),
        error=completion.error,
        updated=old.updated if old else None,
        extra=old.extra if old else {},
    )
    return (
        record if record == old else replace(record, updated=datetime.now(UTC).isoformat(timespec="seconds"))
    )


def _verdict(verdict: Verdict | None) -> dict[str, Any] | None:
    if verdict is None:
        return None
    criteria = [asdict(criterion) for criterion in verdict.criteria]
    return {
        "result": verdict.result.value,
        "action": verdict.action.value,
        "reason": verdict.reason,
        "criteria": criteria,
    }


def _digest(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the canonical JSON of all fields but the digest itself."""
    fields = {name: value for name, value in document.items() if name != "digest"}
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _from_document(path: Path, document: dict[str, Any]) -> SpecState:
    found = read_fields(path, _StateFile, document, _HINT)
    return SpecState(
        tasks={key: _read_record(path, key, entry) for key, entry in found.tasks.items()},
        head_branch=found.head_branch,
        run=found.run,
        seq=found.seq,
        extra={name: value for name, value in document.items() if name not in _StateFile.__struct_fields__},
        origin=document,
    )


def _read_record(path: Path, key: str, entry: Mapping[str, Any]) -> TaskRecord:
    own = {name: entry[name] for name in _ENTRY if name in entry}
    extra = {name: value for name, value in entry.items() if name not in _ENTRY}
    return replace(read_fields(path, TaskRecord, own, _HINT, f"tasks.{key}"), extra=extra)


def unticked(parsed: ParsedTasks, state: SpecState | None) -> list[BoxTask]:
    """Tasks that are done by the record although their box is open."""
    if state is None:
        return []
    return [
        box
        for box in parsed.tasks
        if box.status is TaskStatus.PENDING and state.has(box.key, box.fingerprint)
    ]


def recorded(box: BoxTask, state: SpecState | None) -> BoxTask:
    """A task with an open box as the record has it: done, or left out by a person."""
    if state is None or box.status is not TaskStatus.PENDING:
        return box
    if state.has(box.key, box.fingerprint):
        return replace(box, status=TaskStatus.DONE)
    return replace(box, status=TaskStatus.SKIPPED) if state.skips(box.key, box.fingerprint) else box


def state_notices(boxes: list[BoxTask], state: SpecState | None) -> Iterator[Notice]:
    """Yield what a person should know about tasks that are done by the record."""
    if state is None:
        return
    here = {box.key: box for box in boxes}
    for key, box in here.items():
        if key in state.completed and box.status is TaskStatus.PENDING:
            text = f"{key} was done once but says something else now: it is pending again."
            yield Notice(box.line, text)
    gone = sorted(state.completed - here.keys())
    if gone:
        yield Notice(1, f"state.json counts tasks as done that are not in tasks.md: {', '.join(gone[:20])}.")
