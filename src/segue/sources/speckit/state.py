"""The state.json of a Spec Kit feature: what became of each task, and the branch the next one builds on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from segue.domain.errors import SourceError
from segue.domain.history import SourceHistory
from segue.domain.task import Completion, TaskStatus
from segue.domain.verdict import Verdict
from segue.sources.restore import CorruptState, read_document
from segue.system.files import write_atomic

SCHEMA = 1
NAME = "state.json"
CANNOT_PROCEED = "Cannot proceed: state file is missing or corrupted."
FAILED = "failed"

_TEXT = (str, type(None))
_HINT = "Fix it, or move it away: the ticks in tasks.md are kept, and `segue run` starts a new one."
_TOP = {"run": _TEXT, "head_branch": _TEXT, "digest": _TEXT, "seq": (int,), "tasks": (dict,)}
_ENTRY = {
    "status": (str,),
    "text": _TEXT,
    "agent_id": _TEXT,
    "branch": _TEXT,
    "commit": _TEXT,
    "error": _TEXT,
    "updated": _TEXT,
    "attempts": (int,),
    "verdict": (dict, type(None)),
}


class UnusableState(SourceError):
    """The state file is missing or corrupted although it is needed."""


class TaskRecord(Struct, frozen=True):
    """The record of one task."""

    status: str
    """`done`, `failed`, `skipped` or `pending`."""
    text: str | None = None
    """The fingerprint of the task's line: another task with the same id is another task."""
    agent_id: str | None = None
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

    def has(self, key: str, text: str) -> bool:
        """Return whether this very task is completed; a record written by hand may lack the fingerprint."""
        record = self.tasks.get(key)
        return record is not None and record.is_done and record.text in (None, text)

    def skips(self, key: str, text: str) -> bool:
        """Return whether a person decided to leave this very task out."""
        record = self.tasks.get(key)
        return record is not None and record.status == TaskStatus.SKIPPED and record.text in (None, text)

    def after(self, key: str, text: str, completion: Completion) -> SpecState:
        """The state once the end of a task is recorded."""
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
        """The state with all that the journal knows; `lines` are fingerprints of the tasks of now."""
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
        """The fields of the file, but for the digest."""
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
    if document is None:
        return None
    _check(path, document)
    return _from_document(document)


def unusable(error: CorruptState) -> UnusableState:
    """Return the refusal to run a feature with a corrupted state file that cannot be rebuilt."""
    return UnusableState(CANNOT_PROCEED, kept=error.kept, hint=f"{error.message} {error.hint}")


def save(path: Path, state: SpecState) -> None:
    """Write the state file, whole or not at all."""
    fields = state.document()
    fields["digest"] = _digest(fields)
    write_atomic(
        path, (json.dumps(fields, indent=2) + "\n").encode(), durable=False
    )  # the journal has it too


def _record(text: str, completion: Completion, old: TaskRecord | None) -> TaskRecord:
    """The record of an end; the same end recorded again is the same record."""
    status = (
        FAILED if completion.error and completion.status is TaskStatus.PENDING else completion.status.value
    )
    record = TaskRecord(
        status=status,
        text=text,
        agent_id=completion.session,
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
    """The SHA-256 of the canonical JSON of all fields but the digest itself."""
    fields = {name: value for name, value in document.items() if name != "digest"}
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _check(path: Path, document: dict[str, Any]) -> None:
    schema = document.get("schema", SCHEMA)
    if schema != SCHEMA or isinstance(schema, bool):
        raise CorruptState(path, "`schema` has the wrong type", _HINT)
    wrong = _wrong({"tasks": None, **document}, _TOP)
    if not wrong:
        for key, entry in document["tasks"].items():
            if not isinstance(entry, dict) or (inner := _wrong({"status": None, **entry}, _ENTRY)):
                wrong = f"tasks.{key}" + (f".{inner}" if isinstance(entry, dict) else "")
                break
    if wrong:
        raise CorruptState(path, f"`{wrong}` is missing or has the wrong type", _HINT)


def _wrong(fields: Mapping[str, Any], types: Mapping[str, tuple[type, ...]]) -> str:
    """The first field whose value has a type it must not have."""
    for name, allowed in types.items():
        if name in fields and (isinstance(fields[name], bool) or not isinstance(fields[name], allowed)):
            return name
    return ""


def _from_document(document: dict[str, Any]) -> SpecState:
    own = {"schema", *_TOP}
    tasks = {
        key: TaskRecord(
            **{name: entry[name] for name in _ENTRY if name in entry},
            extra={name: value for name, value in entry.items() if name not in _ENTRY},
        )
        for key, entry in document["tasks"].items()
    }
    return SpecState(
        tasks=tasks,
        head_branch=document.get("head_branch"),
        run=document.get("run"),
        seq=document.get("seq", 0),
        extra={name: value for name, value in document.items() if name not in own},
        origin=document,
    )
