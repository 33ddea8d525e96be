"""Estimate how long a run still takes, from how long its tasks took: in earlier runs, and in this one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from segue.domain.amounts import format_count, format_duration
from segue.view.run import RunView
from segue.view.task import TaskView

_OPEN = ("pending", "running", "parked", "stopped")
_LEAST = 0.1
"""The share of its usual time that a task still takes at least, however long it has taken."""


class Estimate(Struct, frozen=True):
    """How long a run still takes."""

    seconds: float
    measured: int
    """How many tasks it is computed from."""

    @property
    def words(self) -> tuple[str, str]:
        """How long, and how that is known."""
        minutes = round(self.seconds / 60)
        left = format_duration(60.0 * minutes) if minutes > 2 else f"{max(1, round(self.seconds))}s"
        return f"about {left.removesuffix('00s')} left", f"measured on {format_count(self.measured, 'task')}"


def estimate(view: RunView, earlier: Mapping[str, float], jobs: int, now: float) -> Estimate | None:
    """Return how long the open tasks still take, if `jobs` are worked on at once; None: nothing is known.

    `earlier` has the seconds that tasks took before; what this run has measured itself counts instead.
    """
    known = {**earlier, **dict(_measure(view))}
    if not known:
        return None
    usual = sum(known.values()) / len(known)
    still = [_left(view, task, known.get(task.key, usual), now) for task in view.tasks.values()]
    seconds = max(max(still, default=0.0), sum(still) / max(1, jobs))
    return Estimate(seconds + _pause(view, now), len(known))


def _measure(view: RunView) -> Iterator[tuple[str, float]]:
    for task in view.tasks.values():
        if task.state == "done" and task.work_ms:
            yield task.key, task.work_ms / 1000


def _left(view: RunView, task: TaskView, usual: float, now: float) -> float:
    """Return how long a task still takes if it takes as long as usual."""
    if task.state not in _OPEN:
        return 0.0
    return max(usual - (view.task_seconds(task, now) or 0.0), _LEAST * usual)


def _pause(view: RunView, now: float) -> float:
    """Return how long nobody works, because every task under way waits for a usage limit."""
    tasks = [task for task in view.work.under_way.values() if task.key]
    wakes = [task.wake for task in tasks if task.state == "parked" and task.wake is not None]
    return max(0.0, min(wakes) - now) if wakes and len(wakes) == len(tasks) else 0.0
