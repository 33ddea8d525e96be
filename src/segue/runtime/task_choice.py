"""Limits a run to parts of its source: tasks or stories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from segue.domain.errors import UsageError
from segue.domain.task import Task, TaskList
from segue.domain.task_names import split_keys
from segue.domain.text import suggest


class TaskChoice(Struct, frozen=True):
    """The tasks and parts of a source that a run is limited to; what is empty limits nothing."""

    only: tuple[str, ...] = ()
    """The keys of tasks."""
    start: str | None = None
    """The task to start from."""
    stories: tuple[str, ...] = ()


ALL = TaskChoice()
_MOST_KEYS = 10


def select_tasks(listing: TaskList, chosen: TaskChoice = ALL) -> tuple[str, ...]:
    """Return the keys a run is limited to; empty means all."""
    keys = [task.key for task in listing.tasks]
    limits = [*_by_key(keys, chosen)]
    if chosen.stories:
        limits.append(_of_stories(listing, chosen.stories))
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
    named = {"--task": chosen.only, "--story": chosen.stories}
    parts = [f"{option} {' or '.join(names)}" for option, names in named.items() if names]
    start = [f"--from {chosen.start}"] if chosen.start is not None else []
    return ", ".join([*parts, *start])


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
        raise UsageError(
            f"There is no task {name!r} in this source.{suggest(name, keys)}",
            hint=f"Its tasks are {shown}; see: segue task list",
        )
    return found


def _of_stories(listing: TaskList, wanted: Sequence[str]) -> list[str]:
    """Return the tasks of some stories, by any of their names."""
    found = {name.casefold() for task in listing.tasks for name in _stories(task)}
    for name in wanted:
        if name.casefold() not in found:
            known = list(dict.fromkeys(names[0] for task in listing.tasks if (names := _stories(task))))
            hint = f"There are: {', '.join(known)}" if known else "It has none. See: segue task list"
            raise UsageError(f"There is no story {name!r} in this source.{suggest(name, known)}", hint=hint)
    asked = {name.casefold() for name in wanted}
    return [task.key for task in listing.tasks if asked & {name.casefold() for name in _stories(task)}]


def _stories(task: Task) -> list[str]:
    keys = task.story.split("+") if task.story else []
    return [name for key in keys for name in (key, key.removeprefix("US"))]
