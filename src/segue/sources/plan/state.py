"""The state file of a plan: which tasks of it are completed in one repository, as readable JSON."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from bisect import bisect_left
from collections.abc import Callable, Mapping
from itertools import filterfalse
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field
from msgspec.structs import replace

from segue.domain.source import SourceHistory
from segue.domain.task import Completion, TaskStatus
from segue.sources.plan.text import order
from segue.sources.state_file import CorruptState, read_document, read_fields
from segue.system.files import exclusive, private_folder, signature, write_atomic

SCHEMA = 1
_LARGEST = 64 * 1024**2
KEPT_PLANS = 100
"""The number of plan texts that the file keeps: it is rewritten again and again and must stay small."""

_LONG = ("completed_task_indices", "completed_task_keys", "task_hashes")
_COMPACT = (",", ":")
_INDEX = re.compile(r"0|[1-9][0-9]{0,17}")
_KEY = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,18})*[a-z]?")


class _PlanFile(Struct):
    """The fields of the file, as far as they are ours."""

    plan_path: str
    repo_path: str
    completed_task_indices: list[Annotated[int, Meta(ge=0, lt=10**18)]]
    completed_task_keys: list[str] = []
    skipped_task_keys: list[str] = []
    last_plan_by_task: dict[str, str] = {}
    last_completed_ref: str | None = None
    plan_hash: str | None = None
    task_hashes: dict[str, str] = {}
    run: str | None = None
    seq: int = 0
    digest: str | None = None
    schema: Literal[1] = 1


class PlanState(Struct, frozen=True):
    """The progress of a plan."""

    plan_path: str
    repo_path: str
    indices: tuple[int, ...] = ()
    """The completed tasks with plain numbers, ascending."""
    others: tuple[str, ...] = ()
    """The completed tasks with keys such as 2.1 and 4b."""
    skipped: tuple[str, ...] = ()
    """The tasks a person decided to leave out."""
    last_plan_by_task: Mapping[str, str] = field(default_factory=dict)
    last_completed_ref: str | None = None
    plan_hash: str | None = None
    task_hashes: Mapping[str, str] = field(default_factory=dict)
    """A hash of each task's text when it was completed, so that a renumbered plan is noticed."""
    run: str | None = None
    seq: int = 0
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Fields of others, kept when the file is written again."""
    origin: Mapping[str, Any] | None = None
    """The document as it was read; None for a state that has not been in a file yet."""

    @property
    def edited(self) -> bool:
        """True if somebody other than Segue wrote the file it was read from."""
        return self.origin is not None and self.origin.get("digest") != _digest(self.origin)

    @property
    def completed(self) -> frozenset[str]:
        """The keys of all completed tasks."""
        return frozenset(self.others).union(map(str, self.indices))

    def after(self, key: str, completion: Completion) -> PlanState:
        """Return the state once the completion is recorded."""
        run, seq = completion.run, completion.seq
        is_done = self.has(key)
        if completion.status is TaskStatus.SKIPPED:
            return replace(self, skipped=tuple(sorted({*self.skipped, key}, key=order)), run=run, seq=seq)
        if completion.status is TaskStatus.PENDING:
            rest = tuple(other for other in self.skipped if other != key)
            return replace(self._without(key) if is_done else self, skipped=rest, run=run, seq=seq)
        # The record of a later task is not undone when an earlier step is repeated after a crash.
        if is_done and run == self.run and seq < self.seq:
            return self
        plans = self._plans_with(key, completion.plan)
        return replace(
            self if is_done else self._with(key),
            last_plan_by_task=plans,
            last_completed_ref=completion.commit,
            run=run,
            seq=seq,
        )

    def continued(self, history: SourceHistory) -> PlanState:
        """Return the state with everything the journal knows."""
        state = self
        for key, completion in history.completions().items():
            state = state.after(key, completion)
        run, seq = history.last
        return replace(state, run=run, seq=seq)

    def has(self, key: str) -> bool:
        """Return whether the task is completed."""
        if not _INDEX.fullmatch(key):
            return key in self.others
        place = bisect_left(self.indices, int(key))
        return self.indices[place : place + 1] == (int(key),)

    def _with(self, key: str) -> PlanState:
        if _INDEX.fullmatch(key):
            place = bisect_left(self.indices, int(key))
            return replace(self, indices=(*self.indices[:place], int(key), *self.indices[place:]))
        return replace(self, others=tuple(sorted((*self.others, key), key=order)))

    def _without(self, key: str) -> PlanState:
        if _INDEX.fullmatch(key):
            return replace(self, indices=tuple(index for index in self.indices if index != int(key)))
        return replace(self, others=tuple(other for other in self.others if other != key))

    def _plans_with(self, key: str, plan: str | None) -> Mapping[str, str]:
        if plan is None:
            return self.last_plan_by_task
        plans = {name: text for name, text in self.last_plan_by_task.items() if name != key}
        plans[key] = plan
        return dict(list(plans.items())[-KEPT_PLANS:])

    def document(self) -> dict[str, Any]:
        """Return the fields of the file, but for the digest."""
        return {
            "schema": SCHEMA,
            "plan_path": self.plan_path,
            "repo_path": self.repo_path,
            "completed_task_indices": self.indices,
            "completed_task_keys": [*map(str, self.indices), *self.others],
            "skipped_task_keys": self.skipped,
            "last_plan_by_task": dict(self.last_plan_by_task),
            "last_completed_ref": self.last_completed_ref,
            "plan_hash": self.plan_hash,
            "task_hashes": dict(self.task_hashes),
            "run": self.run,
            "seq": self.seq,
            **self.extra,
        }


def pair_key(plan: Path, repo: Path) -> str:
    """Return the name of a (plan, repository) pair, the same for every way to write the two paths."""
    paths = (os.path.realpath(plan), os.path.realpath(repo))
    digest = hashlib.sha256(b"\0".join(os.fsencode(path) for path in paths)).hexdigest()[:12]
    stem = re.sub(r"[^\w.-]+", "-", Path(paths[0]).stem).strip("-.")[:40]
    return f"{stem or 'plan'}-{digest}"


def state_path(state_dir: Path, plan: Path, repo: Path) -> Path:
    """Return the path of the state file of the pair."""
    return state_dir / "plans" / f"{pair_key(plan, repo)}.json"


def load(path: Path) -> PlanState | None:
    """Read a state file; None if there is none, CorruptState if it cannot be understood."""
    document = read_document(path, SCHEMA, limit=_LARGEST)
    return None if document is None else _from_document(path, document)


def save(path: Path, state: PlanState) -> None:
    """Write the state file, whole or not at all, with one field on each line."""
    private_folder(path.parent)
    # ASCII only: a path may contain bytes that are not text, which other encodings cannot represent.
    document = state.document()
    texts = {name: _encode(name, value) for name, value in document.items()}
    texts["digest"] = json.dumps(_digest_of(document, texts))
    rows = [f"  {json.dumps(name)}: {text}" for name, text in texts.items()]
    write_atomic(path, ("{\n" + ",\n".join(rows) + "\n}\n").encode(), durable=False)  # the journal has it too


def update(
    path: Path,
    change: Callable[[PlanState | None], PlanState],
    known: tuple[object, PlanState] | None = None,
) -> tuple[object, object, PlanState]:
    """Change what is in the file now, alone; gives the file's signatures before and after, and the new state.

    `known` spares reading a file that nobody has touched since. One that is as it should be is not written.
    """
    private_folder(path.parent)
    with exclusive(path.with_name(path.name + ".lock")):
        before = signature(path)
        untouched = known is not None and known[0] is not None and known[0] == before
        old = known[1] if known and untouched else load(path)
        new = change(old)
        if old is None or new != old or (not untouched and old.edited):
            save(path, new)
        return before, signature(path), new


def _encode(name: str, value: object) -> str:
    """Return a field as ASCII JSON; the long ones by the fast encoder, as each task writes them all."""
    if name in _LONG:
        with contextlib.suppress(UnicodeEncodeError):
            text = msgspec.json.encode(value)
            if text.isascii():
                return text.decode()
    return json.dumps(value, separators=_COMPACT)


def _digest(document: Mapping[str, Any]) -> str:
    """Return the digest of a document as it was read."""
    named = {name: value for name, value in document.items() if name != "digest"}
    return _digest_of(named, {name: json.dumps(value, separators=_COMPACT) for name, value in named.items()})


def _digest_of(document: Mapping[str, Any], texts: Mapping[str, str]) -> str:
    """The SHA-256 of what was achieved, the same for every order of names; `texts` are the fields as JSON."""
    sorted_texts = (
        json.dumps(value, sort_keys=True, separators=_COMPACT) if isinstance(value, dict) else texts[name]
        for name, value in sorted(document.items())
        if name != "task_hashes"  # long, and of no interest to anybody but us
    )
    return hashlib.sha256("\n".join([*sorted(document), *sorted_texts]).encode()).hexdigest()


def _from_document(path: Path, document: dict[str, Any]) -> PlanState:
    found = read_fields(path, _PlanFile, document)
    for name in ("completed_task_keys", "skipped_task_keys"):
        # A number needs no closer look: a state of ten thousand tasks is read before each of them.
        if not all(map(_KEY.fullmatch, filterfalse(str.isdecimal, getattr(found, name)))):
            raise CorruptState(path, f"`{name}` is missing or has the wrong type")
    # For plain numbers the list of indices decides: it is the one people and other tools edit.
    others = set(filterfalse(str.isdecimal, found.completed_task_keys))
    return PlanState(
        plan_path=found.plan_path,
        repo_path=found.repo_path,
        indices=tuple(sorted(set(found.completed_task_indices))),
        others=tuple(sorted(others, key=order)),
        skipped=tuple(sorted(set(found.skipped_task_keys), key=order)),
        last_plan_by_task=found.last_plan_by_task,
        last_completed_ref=found.last_completed_ref,
        plan_hash=found.plan_hash,
        task_hashes=found.task_hashes,
        run=found.run,
        seq=found.seq,
        extra={name: value for name, value in document.items() if name not in _PlanFile.__struct_fields__},
        origin=document,
    )
