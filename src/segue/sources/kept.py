"""The state file of a source that is only read: which of its tasks are completed in one repository."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from segue.domain.source import SourceHistory
from segue.domain.task import Completion, TaskStatus
from segue.sources.plan.state import set_aside
from segue.sources.restore import CorruptState, read_state, restore_state
from segue.system.files import exclusive, private_folder, signature, write_atomic

SCHEMA = 1
_LARGEST = 64 * 1024**2


class KeptMark(Struct, frozen=True, omit_defaults=True):
    """How one task was completed."""

    status: TaskStatus
    run: str
    seq: int = 0
    commit: str | None = None
    digest: str | None = None
    """Of what the task said then."""


class KeptMarks(Struct, frozen=True):
    """What the state file says."""

    source: str
    repo_path: str
    tasks: Mapping[str, KeptMark] = field(default_factory=dict)
    run: str | None = None
    seq: int = 0
    digest: str = ""
    """Of everything else: another one shows that somebody edited the file."""
    schema: int = SCHEMA

    @property
    def completed(self) -> list[str]:
        """The tasks that are done."""
        return [key for key, mark in self.tasks.items() if mark.status is TaskStatus.DONE]

    @property
    def edited(self) -> bool:
        """Whether somebody other than Segue wrote the file."""
        return self.digest != _digest(self)

    def after(self, key: str, completion: Completion, digest: str | None) -> KeptMarks:
        """Return the state once a completion is recorded."""
        run, seq = completion.run, completion.seq
        known = self.tasks.get(key)
        if completion.status is TaskStatus.PENDING:
            rest = {other: mark for other, mark in self.tasks.items() if other != key}
            return replace(self, tasks=rest, run=run, seq=seq)
        # The record of a later task is not undone when an earlier step is repeated after a crash.
        if known is not None and known.status is completion.status and run == self.run and seq < self.seq:
            return self
        mark = KeptMark(completion.status, run, seq, completion.commit, digest)
        return replace(self, tasks={**self.tasks, key: mark}, run=run, seq=seq)


class KeptFile:
    """The state file of one source in one repository."""

    def __init__(self, path: Path, source: str, repo: Path) -> None:
        self.path = path
        self._new = KeptMarks(source, str(repo))

    def load(self) -> KeptMarks | None:
        """Return what it says; None if there is no file. Raises CorruptState."""
        data = read_state(self.path, limit=_LARGEST)
        if data is None:
            return None
        try:
            found = msgspec.json.decode(data, type=KeptMarks)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise CorruptState(self.path, str(error)) from error
        if found.schema != SCHEMA:
            newer = found.schema > SCHEMA
            raise CorruptState(self.path, f"it has schema {found.schema}, not {SCHEMA}", newer=newer)
        return found

    def update(self, change: Callable[[KeptMarks], KeptMarks]) -> KeptMarks:
        """Change what is in the file now, alone; return what is in it then."""
        private_folder(self.path.parent)
        with exclusive(self.path.with_name(self.path.name + ".lock")):
            old = self.load()
            new = change(old or self._new)
            new = replace(new, digest=_digest(new))
            if new != old:
                text = json.dumps(msgspec.to_builtins(new), indent=1)
                write_atomic(self.path, text.encode(), durable=False)  # the journal has it too
            return new

    def restart(self) -> None:
        """Forget what is done; the record is kept aside."""
        if self.path.exists():
            set_aside(self.path, "restarted")
        self.update(lambda old: old)

    def restore(self, history: SourceHistory, digests: Mapping[str, str]) -> str:
        """Rebuild a file that is missing, unreadable or older than the journal; believe any other."""

        def change(state: KeptMarks) -> KeptMarks:
            for key, mark in history.completions().items():
                state = state.after(key, mark, mark.digest or digests.get(key))
            run, seq = history.last
            return replace(state, run=run, seq=seq)

        return restore_state(
            self.path, history, self.load, lambda _old: self.update(change), lambda: set_aside(self.path)
        )

    def signature(self) -> object:
        """Return what differs whenever the file was written in between."""
        return signature(self.path)


def pair_key(kind: str, name: str, repo: Path) -> str:
    """Return the name of a (source, repository) pair."""
    pair = json.dumps([kind, name, os.path.realpath(repo)])
    digest = hashlib.sha256(pair.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    stem = re.sub(r"[^\w.-]+", "-", Path(name).stem).strip("-.")[:40]
    return f"{kind}-{stem}-{digest}" if stem else f"{kind}-{digest}"


def _digest(marks: KeptMarks) -> str:
    document: Any = msgspec.to_builtins(replace(marks, digest=""))
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
