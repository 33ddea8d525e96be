"""The progress file of a source: readable JSON that says what is done, written after each task.

The journal is the record. The file is for people and for other programs; Segue reads it only where its
journal does not know the source, as on another machine.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from segue.domain.errors import SourceError
from segue.domain.task import Completion, Task, TaskStatus
from segue.domain.verdict import Verdict
from segue.system.files import private_folder, write_atomic
from segue.system.reading import read_file, write_inside

FAILED = "failed"
_LARGEST = 64 * 1024**2
_MOST_PLANS = 100
"""Plan texts that the file keeps: it is written again after each task and must stay small."""
_NEEDED = ("completed_task_indices", "tasks")


class CorruptProgress(SourceError):
    """The progress file cannot be understood."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(
            f"The state file {path} is corrupted: {reason}.",
            kept="The file was left as it is.",
            hint="Fix it, or start from the first task: segue run SOURCE --restart",
        )


class TaskRecord(Struct, frozen=True):
    """What became of one task."""

    status: str
    """`done`, `skipped`, `failed` or `pending`."""
    agent_id: str | None = None
    """The vendor's id of a cloud agent; the session of another one."""
    url: str | None = None
    branch: str | None = None
    commit: str | None = None
    attempts: int = 0
    verdict: Verdict | None = None
    error: str | None = None
    digest: str | None = None
    """Of the task's text: another task with the same key is another task."""


class ProgressDocument(Struct, frozen=True):
    """What a progress file says."""

    plan_path: str = ""
    repo_path: str = ""
    completed_task_indices: tuple[int, ...] = ()
    last_plan_by_task: Mapping[str, str] = {}
    last_completed_ref: str | None = None
    head_branch: str | None = None
    """The branch that the next task builds on, where each task has its own."""
    tasks: Mapping[str, TaskRecord] = {}
    steps: tuple[Task, ...] = ()
    """The plan, where an agent has made it."""
    schema: Literal[1] = 1

    @classmethod
    def of(
        cls,
        place: tuple[str, Path],
        ends: Mapping[str, Completion],
        head: str | None,
        steps: Sequence[Task] = (),
    ) -> ProgressDocument:
        """Return the progress of a source, by its address and its repository, from how its tasks ended."""
        done = {key: end for key, end in ends.items() if end.status is TaskStatus.DONE}
        plans = {key: end.plan for key, end in done.items() if end.plan is not None}
        return cls(
            plan_path=place[0],
            repo_path=str(place[1]),
            completed_task_indices=tuple(sorted(int(key) for key in done if _is_index(key))),
            last_plan_by_task=dict([*plans.items()][-_MOST_PLANS:]),
            last_completed_ref=next((end.commit for end in reversed(done.values())), None),
            head_branch=head,
            tasks={key: _record(end) for key, end in ends.items()},
            steps=tuple(steps),
        )

    def completions(self) -> dict[str, Completion]:
        """Return how the tasks ended that are done or skipped."""
        known = {str(index): TaskRecord(TaskStatus.DONE) for index in self.completed_task_indices}
        known |= {key: one for key, one in self.tasks.items() if one.status in ("done", "skipped")}
        return {key: _completion(one, self.last_plan_by_task.get(key)) for key, one in known.items()}


class ProgressFile:
    """The progress file of one source in one repository."""

    def __init__(self, path: Path, inside: Path | None = None) -> None:
        """`inside` is the work tree around a file of the project: links out of it are not followed."""
        self.path = path
        self._inside = inside

    def read(self) -> ProgressDocument | None:
        """Return what the file says; None if there is none. Raises CorruptProgress."""
        try:
            data = read_file(self.path, self._inside, _LARGEST)
            document = json.loads(data.decode("utf-8-sig"))
            if not isinstance(document, dict):
                raise CorruptProgress(self.path, "it is not a JSON object")
            if not any(name in document for name in _NEEDED):
                raise CorruptProgress(self.path, f"`{_NEEDED[0]}` is missing")
            return msgspec.convert(document, ProgressDocument)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CorruptProgress(self.path, f"it cannot be read ({error.strerror or error})") from error
        except msgspec.ValidationError as error:
            raise CorruptProgress(self.path, str(error).rstrip(".")) from error
        except (ValueError, RecursionError) as error:
            raise CorruptProgress(self.path, f"it is not JSON ({error})") from error

    def write(self, progress: ProgressDocument) -> None:
        """Write the file, whole or not at all. It need not outlive a power cut: the journal does."""
        text = msgspec.json.format(msgspec.json.encode(progress), indent=1) + b"\n"
        if self._inside is not None:
            write_inside(self.path, self._inside, text, durable=False)
        else:
            private_folder(self.path.parent)
            write_atomic(self.path, text, durable=False)

    def set_aside(self) -> Path | None:
        """Rename a file that cannot be read, in Segue's own folder; the project's are left to the user."""
        return None if self._inside else self.path.replace(self.path.with_name(f"{self.path.name}.corrupt"))


def pair_key(kind: str, name: str, repo: Path) -> str:
    """Return the name of a source in a repository, the same for every way to write their paths."""
    pair = json.dumps([kind, name, os.path.realpath(repo)])
    digest = hashlib.sha256(pair.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    stem = re.sub(r"[^\w.-]+", "-", Path(name).stem).strip("-.")[:40] if len(name) < 200 else ""
    return f"{kind}-{stem}-{digest}" if stem else f"{kind}-{digest}"


def _is_index(key: str) -> bool:
    return key.isascii() and key.isdecimal() and len(key) < 18


def _record(end: Completion) -> TaskRecord:
    failed = end.error and end.status is TaskStatus.PENDING
    return TaskRecord(
        status=FAILED if failed else end.status.value,
        agent_id=end.agent_id or end.session,
        url=end.url,
        branch=end.branch,
        commit=end.commit,
        attempts=end.attempts,
        verdict=end.verdict,
        error=end.error,
        digest=end.digest,
    )


def _completion(record: TaskRecord, plan: str | None) -> Completion:
    names = ("agent_id", "url", "branch", "commit", "attempts", "verdict", "error", "digest")
    facts: dict[str, Any] = {name: getattr(record, name) for name in names}
    return Completion(TaskStatus(record.status), "", 0, plan=plan, **facts)
