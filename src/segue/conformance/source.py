"""What every source must do, whoever wrote it: run `check_source` on yours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from segue.domain.errors import SegueError
from segue.domain.task import Completion, Task, TaskList, TaskStatus
from segue.ports import Source

_NOBODY = "no-such-task"


def check_source(make: Callable[[], Source], commit: str = "0" * 40) -> None:
    """Raise AssertionError unless the source keeps its promises.

    `make` gives a new object for the same source each time; it needs at least two pending tasks,
    and they are completed for good by this check.
    """
    before = _check_reading(make)
    pending = [task for task in before.tasks if task.status is TaskStatus.PENDING]
    _expect(len(pending) >= 2, "the check needs a source with at least two pending tasks")
    _check_unknown(make, before)
    for number, task in enumerate(pending):
        _check_mark(make, task, Completion(TaskStatus.DONE, "check", number + 1, commit, plan="a plan"))
    _expect(
        not [task for task in make().tasks().tasks if task.status is TaskStatus.PENDING],
        "after all pending tasks were marked as done, some are still pending",
    )


def _check_reading(make: Callable[[], Source]) -> TaskList:
    source = make()
    found = source.tasks()
    _expect(bool(source.kind) and bool(source.key), "a source must have a kind and a key")
    _expect(
        (make().kind, make().key) == (source.kind, source.key), "kind and key change from object to object"
    )
    _expect(source.tasks() == found, "reading twice with the same object gives two different lists")
    _expect(make().tasks() == found, "reading with a new object gives a different list")
    _expect(source.stamp() == source.stamp(), "the stamp changes although nobody touched the source")
    keys = [task.key for task in found.tasks]
    _expect(len(set(keys)) == len(keys), f"keys of tasks must be unique, these are not: {keys}")
    lines = [task.line for task in found.tasks if task.line is not None]
    _expect(len(set(lines)) == len(lines), f"two tasks cannot begin on the same line: {lines}")
    _expect(
        all(notice.line >= 1 and notice.text for notice in found.notices), "a notice needs a line and a text"
    )
    for task in found.tasks:
        _check_task(source, task)
    return found


def _check_task(source: Source, task: Task) -> None:
    name = f"task {task.key!r}"
    _expect(bool(task.key) and task.key == task.key.strip(), f"{name}: a key is never empty or padded")
    _expect("/" not in task.key, f"{name}: a slash in a key would be read as a level in the names of steps")
    _expect(bool(task.title.strip()), f"{name}: a title is never empty")
    _expect(task.title.isprintable(), f"{name}: a title is one printable line")
    _expect(task.status in TaskStatus, f"{name}: unknown status {task.status!r}")
    _expect(task.line is None or task.line >= 1, f"{name}: lines count from 1, not {task.line}")
    _expect(isinstance(source.context(task), str), f"{name}: the context must be text")


def _check_unknown(make: Callable[[], Source], before: TaskList) -> None:
    try:
        make().mark(Task(_NOBODY, "Nobody", ""), Completion(TaskStatus.DONE, "check", 1))
    except SegueError as error:
        _expect(bool(error.message), "a refusal must say why")
    else:
        raise AssertionError("marking a task that is not in the source must raise a SegueError")
    _expect(make().tasks() == before, "a refused mark changed the source")


def _check_mark(make: Callable[[], Source], task: Task, completion: Completion) -> None:
    before = make().tasks()
    source = make()
    stamp = source.stamp()
    source.mark(task, completion)
    marked = source.stamp()
    wanted = make().tasks().tasks
    done = (replace(t, status=TaskStatus.DONE) if t.key == task.key else t for t in before.tasks)
    _expect(
        list(map(_without_criteria, wanted)) == list(map(_without_criteria, done)),
        f"marking task {task.key!r} must make it done and change nothing else",
    )
    others = [(t, now) for t, now in zip(before.tasks, wanted, strict=True) if t.key != task.key]
    if all(t == now for t, now in others):
        _expect(marked == stamp, f"marking task {task.key!r} must not change the source's own stamp")
    else:
        _expect(marked != stamp, f"marking task {task.key!r} gave others new criteria: the stamp must tell")
    source.mark(task, completion)
    make().mark(task, completion)
    _expect(make().tasks().tasks == wanted, f"marking task {task.key!r} again must change nothing")
    _expect(
        source.tasks().tasks == wanted, "the object that marked the task reads something else than a new one"
    )


def _without_criteria(task: Task) -> Task:
    """The criteria of a task may depend on what is still open, everything else may not."""
    return replace(task, criteria=())


def _expect(holds: bool, sentence: str) -> None:
    # Not an `assert` statement: those vanish under `python -O`.
    if not holds:
        raise AssertionError(sentence)
