"""Tasks of Task Master, from `.taskmaster/tasks/tasks.json`; what is done is written back into that file."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.errors import SourceError
from segue.domain.graph import Dependency, WaitKind
from segue.domain.installed import source_of
from segue.domain.source import SourceHistory
from segue.domain.task import Completion, Notice, Task, TaskList, TaskStatus
from segue.domain.text import plain
from segue.ports import SourceRequest
from segue.sources.listed import KEPT, ListedFile, Reading, add_heading, clean_text, read_criteria
from segue.system.beneath import write_still
from segue.system.reading import read_file

_DONE = frozenset({"done", "completed"})
_STATUS = {
    **dict.fromkeys(_DONE, TaskStatus.DONE),
    "cancelled": TaskStatus.CANCELLED,
    **dict.fromkeys(("deferred", "blocked", "review"), TaskStatus.SKIPPED),
}
_WRITTEN = {
    TaskStatus.DONE: "done",
    TaskStatus.SKIPPED: "deferred",
    TaskStatus.CANCELLED: "cancelled",
    TaskStatus.PENDING: "pending",
}
_STALE = 10.0
"""Seconds after which Task Master itself takes a lock for abandoned."""
_LOCK_WAIT = 20.0
_TITLE = 200


class TaskMasterSource(ListedFile):
    """The tasks of the current tag, subtasks one by one."""

    kind = "taskmaster"
    in_files = True
    folder = ".taskmaster"
    file = Path("tasks") / "tasks.json"

    @classmethod
    def matches(cls, request: SourceRequest) -> bool:
        """Return whether a file or folder of Task Master was named."""
        return request.named is not None and source_of(request.named) == cls.kind

    @property
    def own_files(self) -> Sequence[Path]:
        """The file: Segue writes what is done into it."""
        return (self.path,)

    @property
    def kept_out(self) -> Sequence[Path]:
        """What Task Master writes beside it."""
        return (self._lock_path,)

    @property
    def _lock_path(self) -> Path:
        return self.path.with_name(f"{self.path.name}.lock")

    def tasks(self) -> TaskList:
        """Return the tasks; the file itself says what is done."""
        reading = self._read()
        return TaskList(reading.tasks, reading.notices, reading.read_as)

    def announce(self, task: Task, run: str) -> None:  # noqa: ARG002 - the file knows no runs
        """Set a task to in-progress."""
        self._set(task.key, "in-progress")

    def mark(self, task: Task, completion: Completion) -> None:
        """Write the status into the file."""
        self.check_known(task.key)
        self._set(task.key, _WRITTEN[completion.status])

    def restart(self) -> None:
        """Set all tasks that are done back to pending."""
        for task in self._read().tasks:
            if task.status is TaskStatus.DONE:
                self._set(task.key, "pending")

    def restore(self, history: SourceHistory) -> str:  # noqa: ARG002 - people and their tools write the file
        """Believe the file: it is edited by people and tools, and written before a task ends."""
        return ""

    def _interpret(self, data: bytes, variant: str) -> Reading:
        return read_tasks(_parse(data, self.path), variant, str(self.path))

    def _variant(self) -> str:
        """Return the tag that Task Master is on; `master` if it does not say."""
        folder = self.path.parent.parent
        with contextlib.suppress(OSError, ValueError, SourceError):
            state = json.loads(read_file(folder / "state.json", folder))
            if isinstance(state, dict) and isinstance(state.get("currentTag"), str):
                return str(state["currentTag"])
        return "master"

    def _set(self, key: str, status: str) -> None:
        """Write a status, alone, and only if it is another one than there is."""
        with self._own_change(), self._locked():
            document = _parse(self._load(), self.path)
            _, listed = _choose_tag(document, self._variant(), str(self.path))
            if set_status(listed, key, status):
                text = json.dumps(document, indent=2, ensure_ascii=False)
                write_still(self.path, text.encode("utf-8", "surrogatepass"))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the lock of Task Master: a folder beside the file, which counts for ten seconds."""
        end = time.monotonic() + _LOCK_WAIT
        while True:
            try:
                self._lock_path.mkdir()
                break
            except FileExistsError:
                self._clear_stale()
            except OSError as error:
                raise SourceError(f"Cannot lock {self.path}: {error.strerror}.", kept=KEPT) from error
            if time.monotonic() > end:
                raise SourceError(
                    f"{self.path} is locked by somebody else.",
                    kept=KEPT,
                    hint=f"When Task Master is not at work: rmdir {self._lock_path}",
                )
            time.sleep(0.05)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                self._lock_path.rmdir()

    def _clear_stale(self) -> None:
        with contextlib.suppress(OSError):
            if self._lock_path.stat().st_mtime < time.time() - _STALE:
                self._lock_path.rmdir()


class _ListedTask(Struct):
    """A task or subtask as the file has it."""

    key: str
    facts: Mapping[str, Any]
    parent: _ListedTask | None = None


def read_tasks(document: Any, tag: str, name: str) -> Reading:
    """Return the tasks of a tag; a task with subtasks is worked on through them."""
    chosen, listed = _choose_tag(document, tag, name)
    entries = list(_entries(listed))
    leaves: dict[str, list[str]] = {}
    for entry in entries:
        leaves.setdefault(entry.key, []).append(entry.key)
        if entry.parent is not None:
            leaves.setdefault(entry.parent.key, []).append(entry.key)
    tasks, notices = [], []
    for entry in entries:
        waits, unknown = _waits(entry, leaves)
        tasks.append(_task(entry, waits))
        notices += [
            Notice(None, f"{entry.key} waits for {one}, which there is not; ignored.") for one in unknown
        ]
    notices += [
        Notice(None, f"{key} is set to {status}, so it is left to a person.")
        for key, status in _left(entries)
    ]
    reading = Reading.of(_leave_blocked(tasks, notices), notices)
    shown = f", tag {plain(chosen, 40)}" if chosen else ""
    return replace(reading, read_as=f"Read as Task Master's tasks{shown}: {len(tasks)}.")


def set_status(listed: list[Any], key: str, status: str) -> bool:
    """Set the status of a task or subtask, and of its parent accordingly; return whether that is a change."""
    own, _, sub = key.partition(".")
    task = next((one for one in listed if isinstance(one, dict) and _id(one) == own), None)
    if task is None:
        return False
    if not sub:
        return _put(task, status)
    subtasks = _subtasks(task)
    found = next((one for one in subtasks if _part(one) == sub), None)
    if found is None:
        return False
    changed = _put(found, status)
    if all(clean_text(one.get("status")) in _DONE for one in subtasks):
        return _put(task, "done") or changed
    begun = any(clean_text(one.get("status")) in (*_DONE, "in-progress") for one in subtasks)
    if clean_text(task.get("status")) in (*_DONE, "pending", ""):
        return _put(task, "in-progress" if begun else "pending") or changed
    return changed


def _put(task: dict[str, Any], status: str) -> bool:
    # What is completed stays so in its author's word.
    now = clean_text(task.get("status"))
    same = now == status or (status == "done" and now in _DONE)
    if not same:
        task["status"] = status
    return not same


def _parse(data: bytes, path: Path) -> Any:
    try:
        return json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise SourceError(
            f"{path} is not JSON: {error}.", kept=KEPT, hint="Correct the file, or let Task Master write it"
        ) from None


def _choose_tag(document: Any, tag: str, name: str) -> tuple[str, list[Any]]:
    """Return the tag that counts and its tasks; older files have no tags."""
    if isinstance(document, dict) and isinstance(document.get("tasks"), list):
        return "", document["tasks"]
    tags = {
        str(known): value["tasks"]
        for known, value in (document.items() if isinstance(document, dict) else ())
        if isinstance(value, dict) and isinstance(value.get("tasks"), list)
    }
    if not tags:
        raise SourceError(
            f"{name} has no list of tasks as Task Master writes it.",
            kept=KEPT,
            hint="Let Task Master write it again: task-master list",
        )
    chosen = next((known for known in (tag, "master") if known in tags), next(iter(tags)))
    return chosen, tags[chosen]


def _entries(listed: Sequence[Any]) -> Iterator[_ListedTask]:
    """Yield the tasks without subtasks, and the subtasks of the others."""
    seen: set[str] = set()
    for task in listed:
        if not isinstance(task, dict) or not _is_key(key := _id(task)) or key in seen:
            continue
        seen.add(key)
        entry = _ListedTask(key, task)
        inner: dict[str, dict[str, Any]] = {}
        for one in _subtasks(task):
            if _is_key(_part(one)):
                inner.setdefault(f"{key}.{_part(one)}", one)
        if not inner:
            yield entry
        for sub, facts in inner.items():
            yield _ListedTask(sub, facts, entry)


def _subtasks(task: Mapping[str, Any]) -> list[dict[str, Any]]:
    listed = task.get("subtasks")
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def _part(subtask: Mapping[str, Any]) -> str:
    """Return the id of a subtask in its task: `1`, also where the file has `2.1`."""
    return _id(subtask).rpartition(".")[2]


def _is_key(text: str) -> bool:
    return re.fullmatch(r"[\w-]{1,60}", text) is not None


def _id(facts: Mapping[str, Any]) -> str:
    value = facts.get("id")
    return str(value).strip() if isinstance(value, int | str) and not isinstance(value, bool) else ""


def _waits(entry: _ListedTask, leaves: Mapping[str, Sequence[str]]) -> tuple[list[str], list[str]]:
    """Return what an entry waits for: a short id in a subtask means a sibling; those of its parent count."""
    found: list[str] = []
    unknown: list[str] = []
    own = _list(entry.facts.get("dependencies"))
    siblings = [
        f"{entry.parent.key}.{one}" if entry.parent is not None and "." not in one else one for one in own
    ]
    inherited = _list(entry.parent.facts.get("dependencies")) if entry.parent is not None else []
    for one in (*siblings, *inherited):
        targets = leaves.get(one)
        if targets is None:
            unknown.append(plain(one, 40))
        else:
            found += [target for target in targets if target != entry.key]
    return list(dict.fromkeys(found)), unknown


def _list(value: Any) -> list[str]:
    items = value if isinstance(value, list) else []
    return [str(one).strip() for one in items if isinstance(one, int | str) and not isinstance(one, bool)]


def _task(entry: _ListedTask, waits: Sequence[str]) -> Task:
    facts = entry.facts
    title = plain(clean_text(facts.get("title")), _TITLE)
    parts = [
        clean_text(facts.get("description")),
        clean_text(facts.get("details")),
        add_heading("Test strategy", facts.get("testStrategy")),
    ]
    above = "" if entry.parent is None else _about(entry.parent.facts)
    return Task(
        entry.key,
        title or f"Task {entry.key}",
        "\n\n".join(filter(None, parts)) or title,
        _STATUS.get(clean_text(facts.get("status")).lower(), TaskStatus.PENDING),
        criteria=read_criteria(entry.key, facts.get("acceptanceCriteria")),
        section=above,
        depends_on=(Dependency(tuple(waits), WaitKind.STATED, "Task Master says so"),) if waits else (),
    )


def _about(parent: Mapping[str, Any]) -> str:
    words = (clean_text(parent.get(name)) for name in ("title", "description", "details"))
    return "\n\n".join(filter(None, words))


def _left(entries: Sequence[_ListedTask]) -> Iterator[tuple[str, str]]:
    for entry in entries:
        status = clean_text(entry.facts.get("status")).lower()
        if status in ("blocked", "review"):
            yield entry.key, status


def _leave_blocked(tasks: Sequence[Task], notices: list[Notice]) -> list[Task]:
    """Leave tasks out that wait for one that nobody is going to do: only what is done satisfies others."""
    known = {task.key: task for task in tasks}
    changed = True
    while changed:
        changed = False
        for task in list(known.values()):
            if task.status is not TaskStatus.PENDING:
                continue
            waits = [key for wait in task.depends_on for key in wait.keys]
            stuck = [key for key in waits if known[key].status in (TaskStatus.SKIPPED, TaskStatus.CANCELLED)]
            if stuck:
                known[task.key] = replace(task, status=TaskStatus.SKIPPED)
                notices.append(
                    Notice(None, f"{task.key} waits for {stuck[0]}, which is not going to be done.")
                )
                changed = True
    return list(known.values())
