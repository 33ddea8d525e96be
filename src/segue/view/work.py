"""The clock of a run: who works when, the stretches of work that this adds up to, and what launches used."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct, field

from segue.domain.outcome import Usage
from segue.view.task import TaskView

AGENTS, PROVING = "agents", "proving"


class LaunchView(Struct):
    """The launch of a step: whose it is, and what it used."""

    phase: str
    agent: str
    proves: bool = False
    launched: bool = False
    usage: Usage | None = None
    """What it used, as last reported."""


def total_usage(launches: Iterable[LaunchView]) -> Usage:
    """Return what launches used together."""
    return sum((launch.usage for launch in launches if launch.usage is not None), Usage())


class Stretch(Struct):
    """One uninterrupted stretch of work on a task, in milliseconds since the epoch."""

    task: str
    lane: int
    start: int
    end: int | None = None
    """None: it is under way."""
    after: str = ""
    """The task whose end let it begin, or itself if it was interrupted; `why` says why it waited."""
    why: str = ""
    merging: int | None = None
    """When merging its work began, if that was the end of it."""
    collided: int | None = None
    """When its work did not fit what others had merged."""
    session: int = 0
    """The number of the session it belongs to."""

    def seconds(self, now: int) -> float:
        """Return how long it is, until now if it is under way."""
        return max(0, (self.end if self.end is not None else now) - self.start) / 1000


class Work(Struct):
    """The clock of a run. It is stopped between sessions, and while all tasks under way are parked."""

    ms: int = 0
    """How long at least one task, or the run as a whole, was worked on."""
    under_way: dict[str, TaskView] = field(default_factory=dict)
    """The tasks that were begun and have not ended, by key; the planning has an empty one."""
    stretches: list[Stretch] = field(default_factory=list)
    clock: int | None = None
    """Up to when work is counted; None: nobody works."""
    session: int = 0
    """How many sessions there were so far."""
    spent: dict[str, int] = field(default_factory=lambda: dict.fromkeys((AGENTS, PROVING), 0))
    """How long agents worked, and how long proving took; of several at once, each counts."""
    _steps: dict[str, str] = field(default_factory=dict)
    """The steps under way that count there."""
    _open: dict[str, Stretch] = field(default_factory=dict)
    _paused: dict[str, Stretch] = field(default_factory=dict)
    """The last stretches of tasks that wait for their turn to be merged, or for a seat after that."""
    _merged: tuple[str, int] = ("", 0)
    """The task that was merged last, and when that ended."""

    def tick(self, ts: int) -> None:
        """Count the time since the last event as work, for all who are at work."""
        passed = max(0, ts - self.clock) if self.clock is not None else 0
        self.ms += passed
        for kind in self._steps.values():
            self.spent[kind] += passed
        for task in self.under_way.values():
            if self._is_at_work(task):
                task.work_ms += passed
        self._set_clock(ts)

    def begin_step(self, key: str, step: LaunchView) -> None:
        """Count the time from now on as that of an agent, or of proving, if the step is either."""
        if step.agent or step.proves:
            self._steps[key] = AGENTS if step.agent else PROVING

    def is_busy(self, prefix: str) -> bool:
        """Return whether an agent, or a proof, of a task is at work."""
        return any(key.startswith(prefix) for key in self._steps)

    def end_step(self, key: str) -> None:
        """Count no more time for a step."""
        self._steps.pop(key, None)

    def spent_seconds(self, now: float) -> dict[str, float]:
        """Return how long agents worked and proving took until now, in seconds."""
        since = max(0.0, now * 1000 - self.clock) if self.clock is not None else 0.0
        at_work = list(self._steps.values())
        return {kind: (ms + since * at_work.count(kind)) / 1000 for kind, ms in self.spent.items()}

    def begin_session(self, ts: int) -> None:
        """Start the clock; nothing is under way any more."""
        self._steps.clear()
        self._close_all(self.clock if self.clock is not None else ts)
        self.under_way.clear()
        self._paused.clear()
        self.session += 1
        self.clock = ts

    def end_session(self, ts: int) -> None:
        """Stop the clock; what was under way stays known."""
        self._steps.clear()
        self._close_all(ts)
        self.clock = None

    def begin(self, task: TaskView, ts: int, after: str = "", why: str = "") -> None:
        """Begin a task, or begin it again. A task without a lane is the only one under way."""
        if task.lane == 0:
            self._close_all(ts)
            self.under_way.clear()
        self.under_way.pop("", None)
        self._paused.pop(task.key, None)
        self._close(task.key, ts)
        self.under_way[task.key] = task
        self._open_stretch(task, ts, after, why)
        self._set_clock(ts)

    def end(self, task: TaskView, ts: int) -> None:
        """End the work on a task, and what was given up when it ended."""
        for step in [step for step in self._steps if step.startswith(f"task/{task.key}/")]:
            del self._steps[step]
        self.under_way.pop(task.key, None)
        self._paused.pop(task.key, None)
        self._close(task.key, ts)
        self._set_clock(ts)

    def park(self, task: str, ts: int) -> None:
        """Stop the clock of a task; that of the run, if no other task is worked on."""
        self._close(task, ts)
        if not any(one.key and one.state != "parked" for one in self.under_way.values()):
            self.clock = None

    def wake(self, task: TaskView, ts: int) -> None:
        """Continue the work on a task that was parked."""
        if task.key in self.under_way:
            self._open_stretch(task, ts, task.key, "a usage limit")
            self._set_clock(ts)

    def pause(self, task: TaskView, ts: int) -> None:
        """Stop the clock of a task in a lane until its next step begins: others may be merged first."""
        if task.key in self._open:
            self._paused[task.key] = self._open[task.key]
            self._close(task.key, ts)

    def unpause(self, task: TaskView, ts: int) -> None:
        """Continue the work on a task that paused, if it did."""
        last = self._paused.pop(task.key, None)
        if last is None or last.end is None:
            return
        other, when = self._merged
        if other != task.key and when > last.end:
            self._open_stretch(task, ts, other, "its work was merged first")
        else:  # it did not really wait
            task.work_ms += max(0, ts - last.end)
            last.end = None
            self._open[task.key] = last

    def collide(self, task: TaskView, ts: int, again: bool, why: str) -> None:
        """Mark the stretch whose work does not fit, and begin another one if the work is done again."""
        stretch = self._open.get(task.key) or self._paused.pop(task.key, None)
        if stretch is None:
            return
        self._close(task.key, ts)
        stretch.collided = stretch.end
        if again:
            self._open_stretch(task, ts, task.key, why)

    def begin_merge(self, task: TaskView, ts: int) -> None:
        """Mark where merging begins."""
        if stretch := self._open.get(task.key):
            stretch.merging = ts

    def end_merge(self, task: TaskView, ts: int) -> None:
        """Count how long merging took; what follows, waits."""
        stretch = self._open.get(task.key)
        if stretch is not None and stretch.merging is not None:
            task.merge_seconds += max(0, ts - stretch.merging) / 1000
            self._merged = (task.key, ts)
            self.pause(task, ts)

    def since(self, task: TaskView) -> int | None:
        """Return up to when work on a task is counted, if it is at work."""
        return self.clock if task.key in self.under_way and self._is_at_work(task) else None

    def _is_at_work(self, task: TaskView) -> bool:
        return task.key in self._open

    def _set_clock(self, ts: int) -> None:
        for task in self.under_way.values():  # a loop: this is asked twice for every event
            if task.state != "parked":
                self.clock = ts
                return
        self.clock = None if self.under_way else ts

    def _open_stretch(self, task: TaskView, ts: int, after: str = "", why: str = "") -> None:
        stretch = Stretch(task.key, task.lane, ts, after=after, why=why, session=self.session)
        self._open[task.key] = stretch
        self.stretches.append(stretch)

    def _close(self, key: str, ts: int) -> None:
        stretch = self._open.pop(key, None)
        if stretch is not None:
            stretch.end = max(stretch.start, ts)

    def _close_all(self, ts: int) -> None:
        for key in list(self._open):
            self._close(key, ts)
