"""Limits a run to parts of its source: tasks, stories, phases, or what comes before the next checkpoint."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from msgspec import Struct

from segue.domain.errors import UnknownName, UsageError
from segue.domain.task import Task, TaskList, TaskStatus
from segue.domain.task_names import split_keys
from segue.domain.text import suggest

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)*")


class TaskChoice(Struct, frozen=True):
    """The tasks and parts of a source that a run is limited to; what is empty limits nothing."""

    only: tuple[str, ...] = ()
    """The keys of tasks."""
    start: str | None = None
    """The task to start from."""
    stories: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    until_checkpoint: bool = False


ALL = TaskChoice()
_MOST_KEYS = 10


def select_tasks(listing: TaskList, chosen: TaskChoice = ALL) -> tuple[str, ...]:
    """Return the keys a run is limited to; empty means all."""
    keys = [task.key for task in listing.tasks]
    limits = [*_by_key(keys, chosen), *_by_part(listing, chosen)]
    if not limits:
        return ()
    common = set.intersection(*map(set, limits))
    if not common:
        raise UsageError(f"No task is in all of these: {_describe(chosen)}.", hint="See: segue task list")
    if chosen.only and len(limits) == 1:
        return tuple(dict.fromkeys(limits[0]))
    return tuple(key for key in keys if key in common)


def _describe(chosen: TaskChoice) -> str:
    """Name the parts of a source that a run is limited to, by their options."""
    named = {"--task": chosen.only, "--story": chosen.stories, "--phase": chosen.phases}
    parts = [f"{option} {' or '.join(names)}" for option, names in named.items() if names]
    start = [f"--from {chosen.start}"] if chosen.start is not None else []
    return ", ".join([*parts, *start, *(["--until-checkpoint"] if chosen.until_checkpoint else [])])


def _by_key(keys: Sequence[str], chosen: TaskChoice) -> Iterator[Sequence[str]]:
    if chosen.only:
        yield [key for name in chosen.only for key in _find_keys(name, keys)]
    if chosen.start is not None:
        yield keys[keys.index(_find_keys(chosen.start, keys)[0]) :]


def _find_keys(name: str, keys: Sequence[str]) -> list[str]:
    """Return the tasks that are named: `1,2`, `1-3` and `Task 1` are understood."""
    found = [name] if name in keys else split_keys(name, keys)
    if not found:
        shown = ", ".join(keys[:_MOST_KEYS]) + (" …" if len(keys) > _MOST_KEYS else "")
        raise UnknownName(
            "task",
            name,
            f"There is no task {name!r} in this source.{suggest(name, keys)}",
            hint=f"Its tasks are {shown}; see: segue task list",
            known=keys,
        )
    return found


def _by_part(listing: TaskList, chosen: TaskChoice) -> Iterator[Sequence[str]]:
    if chosen.stories:
        yield _of(listing, "story", chosen.stories, _stories)
    if chosen.phases:
        yield _of(listing, "phase", chosen.phases, _phases)
    if chosen.until_checkpoint:
        yield _until_checkpoint(listing)


def _of(
    listing: TaskList, what: str, wanted: Sequence[str], names: Callable[[Task], Sequence[str]]
) -> list[str]:
    """Return the tasks of some stories or phases, by any of their names."""
    found = {name.casefold(): name for task in listing.tasks for name in names(task)}
    for name in wanted:
        if name.casefold() not in found:
            known = list(dict.fromkeys(names(task)[0] for task in listing.tasks if names(task)))
            hint = f"There are: {', '.join(known)}" if known else "It has none. See: segue task list"
            raise UsageError(f"There is no {what} {name!r} in this source.{suggest(name, known)}", hint=hint)
    asked = {name.casefold() for name in wanted}
    return [task.key for task in listing.tasks if asked & {name.casefold() for name in names(task)}]


def _stories(task: Task) -> list[str]:
    keys = task.story.split("+") if task.story else []
    return [name for key in keys for name in (key, key.removeprefix("US"))]


def _phases(task: Task) -> list[str]:
    number = _NUMBER.search(task.phase)
    return [*([number[0]] if number else []), task.phase] if task.phase else []


def _until_checkpoint(listing: TaskList) -> list[str]:
    """Return the tasks from the first pending one to the next checkpoint."""
    first = next((n for n, task in enumerate(listing.tasks) if task.status is TaskStatus.PENDING), None)
    rest = listing.tasks[first:] if first is not None else ()
    last = next((n for n, task in enumerate(rest) if task.checkpoint), None)
    if rest and last is None:
        raise UsageError(
            f"There is no checkpoint after task {rest[0].key}.",
            hint="Write `**Checkpoint**: …` between two tasks, or leave --until-checkpoint out",
        )
    return [task.key for task in (rest[: last + 1] if last is not None else listing.tasks)]
