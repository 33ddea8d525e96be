"""Check that a source keeps the promises of `segue.ports.Source`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from segue.domain.errors import SegueError
from segue.domain.run import RunKind
from segue.domain.source import SourceHistory
from segue.domain.task import Completion, Task, TaskList, TaskStatus
from segue.ports import Source, SourceRequest

_NOBODY = "no-such-task"


def check_source(
    make: Callable[[], Source],
    request: SourceRequest | None = None,
    commit: str = "0" * 40,
    lose: Callable[[], None] | None = None,
) -> None:
    """Raise AssertionError unless the source keeps its promises.

    `make` builds a new object for the same source each time; `request` is what a user gives to open it. It
    needs at least two pending tasks, and they are completed for good by this check. `lose` deletes or damages
    the source's own record of what is done, where it has one that can be rebuilt from the journal.
    """
    before = _check_reading(make)
    pending = [task for task in before.tasks if task.status is TaskStatus.PENDING]
    assert len(pending) >= 2, "the check needs a source with at least two pending tasks"
    _check_facts(make())
    if request is not None:
        _check_opening(make(), request, before)
    _check_unknown(make, before)
    _check_sessions(make, before, [])
    _check_failure(make, pending[0], before)
    for number, task in enumerate(pending):
        _check_mark(make, task, Completion(TaskStatus.DONE, "check", number + 1, commit, plan="a plan"))
    assert not [task for task in make().tasks().tasks if task.status is TaskStatus.PENDING], (
        "after all pending tasks were marked as done, some are still pending"
    )
    marked = [task.key for task in pending]
    _check_sessions(make, make().tasks(), marked)
    if lose is not None:
        _check_loss(make, lose, _history(marked))


def _check_reading(make: Callable[[], Source]) -> TaskList:
    source = make()
    found = source.tasks()
    assert all((source.kind, source.key)), "a source must have a kind and a key"
    assert (make().kind, make().key) == (source.kind, source.key), "kind and key change from object to object"
    assert source.tasks() == found, "reading twice with the same object gives two different lists"
    assert make().tasks() == found, "reading with a new object gives a different list"
    assert make().look().tasks == found.tasks, "look() shows other tasks than tasks()"
    keys = [task.key for task in found.tasks]
    assert len(set(keys)) == len(keys), f"keys of tasks must be unique, these are not: {keys}"
    lines = [task.line for task in found.tasks if task.line is not None]
    assert len(set(lines)) == len(lines), f"two tasks cannot begin on the same line: {lines}"
    assert all(notice.text and (notice.line is None or notice.line >= 1) for notice in found.notices), (
        "a notice needs a text, and lines count from 1"
    )
    for task in found.tasks:
        _check_task(source, task)
    return found


def _check_task(source: Source, task: Task) -> None:
    name = f"task {task.key!r}"
    assert task.key.strip() == task.key != "", f"{name}: a key is never empty or padded"
    assert "/" not in task.key, f"{name}: a slash in a key would be read as a level in the names of steps"
    assert bool(task.title.strip()), f"{name}: a title is never empty"
    assert task.title.isprintable(), f"{name}: a title is one printable line"
    assert task.status in TaskStatus, f"{name}: unknown status {task.status!r}"
    assert task.line is None or task.line >= 1, f"{name}: lines count from 1, not {task.line}"
    assert isinstance(source.context(task), str), f"{name}: the context must be text"


def _check_facts(source: Source) -> None:
    assert all((source.address, source.title)), "a source must have an address and a title"
    assert isinstance(source.run_kind, RunKind), f"unknown kind of run {source.run_kind!r}"
    own = source.own_files
    assert all(isinstance(path, Path) and path.is_absolute() for path in own), f"{own} must be absolute paths"
    for name in ("usual_flow", "branch_prefix"):
        value = getattr(source, name)
        assert value is None or bool(value), f"{name} is None or a name, not {value!r}"


def _check_opening(source: Source, request: SourceRequest, before: TaskList) -> None:
    kind = type(source)
    for named in (request.named, source.address):
        asked = replace(request, named=named)
        assert kind.matches(asked), f"it does not recognise {named!r}"
        again = kind.open(asked)
        found = (again.kind, again.key, again.address, again.tasks())
        wanted = (source.kind, source.key, source.address, before)
        assert found == wanted, f"{named!r} opens another source"
    kind.matches(replace(request, named=None))


def _check_unknown(make: Callable[[], Source], before: TaskList) -> None:
    with pytest.raises(SegueError, match=r"\S"):
        make().mark(Task(_NOBODY, "Nobody", ""), Completion(TaskStatus.DONE, "check", 1))
    assert make().tasks() == before, "a refused mark changed the source"


def _check_sessions(make: Callable[[], Source], before: TaskList, marked: Sequence[str]) -> None:
    """A run starts and resumes without a change to any task."""
    for _ in range(2):
        said = make().restore(_history(marked))
        assert said == "", f"nothing happened to the source, but restore() says: {said!r}"
        change = make().rewritten()
        assert change is None, f"nobody has rewritten a task, but rewritten() says: {change}"
    now = make().tasks()
    assert now.tasks == before.tasks, "starting and resuming a run changed the tasks"
    for task in now.tasks:
        same = make().fingerprint(task) == make().fingerprint(task)
        assert same, f"the fingerprint of task {task.key!r} changes from object to object"


def _history(marked: Sequence[str]) -> SourceHistory:
    """Return what the journal knows after this check has marked some tasks as done."""
    marks = {key: Completion(TaskStatus.DONE, "check", number + 1) for number, key in enumerate(marked)}
    return SourceHistory(("check",), marks)


def _check_loss(make: Callable[[], Source], lose: Callable[[], None], history: SourceHistory) -> None:
    """A record that was lost is rebuilt from the journal, with a word about it; a restart is not undone."""
    before = make().tasks()
    lose()
    said = make().restore(history)
    assert said, "the record was lost and rebuilt, but restore() says nothing"
    assert make().tasks().tasks == before.tasks, "restore() did not bring back what the journal knows as done"
    assert make().restore(history) == "", "restore() rebuilds what it has rebuilt already"
    make().restart()
    begun = [task for task in make().tasks().tasks if task.status is TaskStatus.PENDING]
    said = make().restore(history)
    assert said == "", f"after restart() nothing is lost, but restore() says: {said!r}"
    now = [task for task in make().tasks().tasks if task.status is TaskStatus.PENDING]
    assert now == begun, "restore() has undone restart()"


def _check_failure(make: Callable[[], Source], task: Task, before: TaskList) -> None:
    make().record(task, Completion(TaskStatus.PENDING, "check", 1, error="it failed"))
    assert make().tasks().tasks == before.tasks, f"task {task.key!r} failed, but it must stay pending"


def _check_mark(make: Callable[[], Source], task: Task, completion: Completion) -> None:
    before = make().tasks()
    source, watcher = make(), make()
    stamp, watched = source.stamp(), watcher.stamp()
    # The stamps of a source that does not know what has changed are never equal.
    stamped = source.stamp() == stamp
    source.mark(task, completion)
    marked = source.stamp()
    wanted = make().tasks().tasks
    done = (replace(t, status=TaskStatus.DONE) if t.key == task.key else t for t in before.tasks)
    assert list(map(_without_criteria, wanted)) == list(map(_without_criteria, done)), (
        f"marking task {task.key!r} must make it done and change nothing else"
    )
    others = [(t, now) for t, now in zip(before.tasks, wanted, strict=True) if t.key != task.key]
    if any(t != now for t, now in others):
        assert marked != stamp, f"marking task {task.key!r} changed other criteria: the stamp must change"
    elif stamped:
        assert marked == stamp, f"marking task {task.key!r} must not change the source's own stamp"
    assert watcher.stamp() != watched, (
        f"task {task.key!r} was marked by another object: the stamp must change"
    )
    source.mark(task, completion)
    make().mark(task, completion)
    assert make().tasks().tasks == wanted, f"marking task {task.key!r} again must change nothing"
    assert source.tasks().tasks == wanted, "the object that marked the task reads other tasks than a new one"


def _without_criteria(task: Task) -> Task:
    """Criteria, and whether a story ends here, may depend on what is still open; everything else may not."""
    return replace(task, criteria=(), story_tasks=(), independent_test="")
