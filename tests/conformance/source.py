"""Check that a source keeps the promises of `segue.ports.Source`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from segue.domain.source import SourceHistory
from segue.domain.task import Completion, Task, TaskList, TaskStatus
from segue.ports import Source, SourceRequest
from segue.sources.recorded import RecordedSource


def check_source(make: Callable[[], Source], request: SourceRequest) -> None:
    """Raise AssertionError unless the source keeps its promises.

    `make` builds a new object for the same source each time; `request` is what a user gives to open it. It
    needs at least two pending tasks, and they are completed for good by this check.
    """
    before = _check_reading(make)
    pending = [task for task in before.tasks if task.status is TaskStatus.PENDING]
    assert len(pending) >= 2, "the check needs a source with at least two pending tasks"
    _check_opening(make(), request, before)
    failed = Completion(TaskStatus.PENDING, "check", 1, error="it failed")
    make().mark(pending[0], failed)
    assert make().tasks().tasks == before.tasks, "a task that failed must stay pending"
    _check_record(make, request, pending)


def _check_reading(make: Callable[[], Source]) -> TaskList:
    source = make()
    found = source.tasks()
    assert all((source.kind, source.key, source.address, source.title)), (
        "kind, key, address or title is empty"
    )
    assert (make().kind, make().key) == (source.kind, source.key), "kind and key change from object to object"
    assert source.tasks() == found == make().tasks(), "reading twice gives two different lists"
    keys = [task.key for task in found.tasks]
    assert len(set(keys)) == len(keys), f"keys of tasks must be unique, these are not: {keys}"
    files = source.files
    for path in (*files.contract, *files.written, *files.ignored, *files.documents):
        assert path.is_absolute(), f"{path} must be absolute"
    for task in found.tasks:
        assert "/" not in task.key, f"a slash in {task.key!r} would be read as a level in the names of steps"
        assert task.key.strip() == task.key != "", f"{task.key!r} is empty or padded"
        assert task.title.strip(), f"the title of {task.key} is empty"
        assert task.title.isprintable(), f"the title of {task.key} is not one printable line"
        assert task.line is None or task.line >= 1, "lines count from 1"
        assert isinstance(source.context(task), str), "the context must be text"
    return found


def _check_opening(source: Source, request: SourceRequest, before: TaskList) -> None:
    kind = type(source)
    for named in (request.named, source.address):
        asked = replace(request, named=named)
        assert kind.matches(asked), f"it does not recognise {named!r}"
        again = kind.open(asked)
        found = (again.kind, again.key, again.address, again.tasks())
        assert found == (source.kind, source.key, source.address, before), f"{named!r} opens another source"
    kind.matches(replace(request, named=None))


def _check_record(make: Callable[[], Source], request: SourceRequest, pending: list[Task]) -> None:
    """Mark all tasks; a session later they are done by the journal, and by the progress file without it."""
    made: dict[str, Completion] = {}

    def open_again(journal: bool) -> RecordedSource:
        history = SourceHistory(("check",), dict(made)) if journal and made else SourceHistory()
        return RecordedSource(make(), request.repo, Path(request.state_dir), lambda: history)

    for number, task in enumerate(pending):
        made[task.key] = Completion(TaskStatus.DONE, "check", number + 1, "0" * 40)
        source = open_again(journal=True)
        for _ in range(2):
            source.mark(task, made[task.key])
    for journal in (True, False):
        left = [task.key for task in open_again(journal).tasks().tasks if task.status is TaskStatus.PENDING]
        assert not left, f"after all tasks were marked as done, these are pending: {left}"
