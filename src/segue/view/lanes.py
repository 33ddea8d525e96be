"""How parallel a run was: tasks at a time, and what serialised them."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from msgspec import Struct

from segue.domain.amounts import format_count, format_duration
from segue.view.run import RunView
from segue.view.work import Stretch

NO_LANE = "no lane was free"
_MOST_LINKS = 6
"""How many waits a sentence names."""


class ChainLink(Struct, frozen=True):
    """One stretch of work in the longest chain of waits."""

    task: str
    title: str
    seconds: float
    after: str
    """The task it waited for, itself if it was interrupted; empty: it began at once."""
    why: str

    @property
    def words(self) -> str:
        """Say what it waited for, and why."""
        if self.after == self.task:
            return f"{self.task} continued after {self.why}"
        return (
            f"{self.task} waited for {self.after}: {self.why}" if self.after else f"{self.task} began at once"
        )


def list_stretches(view: RunView) -> list[Stretch]:
    """Return the stretches of work in lanes, in the order in which they began."""
    return [stretch for stretch in view.work.stretches if stretch.lane]


def measure_parallelism(view: RunView, now: float) -> float | None:
    """Return how many tasks were worked on at a time, on average; None where there are no lanes."""
    wall = view.seconds(now)
    worked = sum(stretch.seconds(round(now * 1000)) for stretch in list_stretches(view))
    return worked / wall if worked and wall else None


def find_chain(view: RunView, now: float) -> list[ChainLink]:
    """Return what serialised the last session: from a task that began at once to the one that ended last."""
    ms = round(now * 1000)
    stretches = [stretch for stretch in list_stretches(view) if stretch.session == view.work.session]
    ends = [(ms if one.end is None else one.end, place) for place, one in enumerate(stretches)]
    ended = sorted((one.end, place) for place, one in enumerate(stretches) if one.end is not None)
    place = max(ends)[1] if ends else None
    chain: list[ChainLink] = []
    while place is not None:
        last, before = stretches[place], _find_before(stretches, ended, place)
        after, why = ("", "") if before is None else (stretches[before].task, last.why or NO_LANE)
        chain.append(ChainLink(last.task, view.tasks[last.task].title, last.seconds(ms), after, why))
        place = before
    return chain[::-1]


def _find_before(stretches: list[Stretch], ended: list[tuple[int, int]], place: int) -> int | None:
    """Return the place of the stretch that had to end first: of the task it waited for, else the last."""
    stretch = stretches[place]
    if stretch.after:
        return next((one for one in range(place - 1, -1, -1) if stretches[one].task == stretch.after), None)
    before = range(bisect_left(ended, (stretch.start, place)) - 1, -1, -1)
    return next((ended[at][1] for at in before if ended[at][1] < place), None)


def describe_lanes(view: RunView, now: float) -> list[str]:
    """Say how many tasks were worked on at a time, and what serialised them; nothing without lanes."""
    parallelism = measure_parallelism(view, now)
    if parallelism is None:
        return []
    merging = sum(task.merge_seconds for task in view.tasks.values())
    collided = f", {format_count(view.collisions, 'collision')}" if view.collisions else ""
    lines = [f"{parallelism:.1f} tasks at a time; merging took {format_duration(merging)}{collided}."]
    waits = [link.words for link in find_chain(view, now) if link.after][-_MOST_LINKS:]
    return [*lines, f"What serialised them: {'; '.join(waits)}."] if waits else lines


def lanes_data(view: RunView, now: float) -> dict[str, Any] | None:
    """Return the lanes for programs; None where the run works on one task at a time."""
    stretches = list_stretches(view)
    if not stretches and not view.waiting:
        return None
    parallelism = measure_parallelism(view, now)
    return {
        "at_work": [
            {"lane": lane, "task": task.key, "state": task.state} for lane, task in view.lanes.items()
        ],
        "waiting": len(view.waiting),
        "collisions": view.collisions,
        "merge_seconds": round(sum(task.merge_seconds for task in view.tasks.values()), 3),
        "parallelism": None if parallelism is None else round(parallelism, 2),
        "chain": [
            {name: getattr(link, name) for name in link.__struct_fields__} for link in find_chain(view, now)
        ],
    }
