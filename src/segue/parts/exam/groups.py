"""Which tasks are tested together: those of a story, of a phase, and of the whole run."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from msgspec import Struct

from segue.domain.task import Task, TaskKind, TaskStatus

_MOST = 12
"""So many tasks are tested together, the last ones."""


class Group(Struct, frozen=True):
    """Tasks that are tested together."""

    name: str
    """As a part of names: `us1`, `run`."""
    tasks: tuple[Task, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of its tasks."""
        return tuple(task.key for task in self.tasks)


def find_groups(tasks: Sequence[Task], done: Collection[str], chosen: Collection[str] = ()) -> list[Group]:
    """Return what can be tested together: at least two tasks that build something, and none is pending.

    `done` are those that the run has done, `chosen` those that it is limited to.
    """
    wanted = [task for task in tasks if not chosen or task.key in chosen]
    labels: dict[str, list[Task]] = {}
    for task in wanted:
        labels.setdefault(task.story or task.build_phase or "", []).append(task)
    named = [(label, several) for label, several in labels.items() if label]
    if len(named) != 1 or len(labels) > 1:
        named.append(("run", wanted))
    found = []
    for label, several in named:
        built = [task for task in several if task.kind is TaskKind.BUILD and task.key in done]
        if len(built) > 1 and not any(map(_is_open, several)):
            found.append(Group(re.sub(r"\W+", "_", label.lower()), tuple(built[-_MOST:])))
    return found


def _is_open(task: Task) -> bool:
    return task.status is TaskStatus.PENDING and task.kind is not TaskKind.HUMAN
