"""Who works when: the clock of a run, the tasks under way, and the stretches of work they add up to."""

from __future__ import annotations

from msgspec import Struct, field

from segue.view.task import TaskView


class Stretch(Struct):
    """One uninterrupted stretch of work on a task, in milliseconds since the epoch."""

    task: str
    lane: int
    start: int
    end: int | None = None
    """None: it is under way."""
    after: str = ""
    """The task whose end let it begin, or itself if it was parked; `why` says why it waited."""
    why: str = ""
    merging: int | None = None
    """When merging its work began, which lasted until its end."""
    collided: int | None = None
    """When its work did not fit what others had merged."""
    session: int = 0
    """The number of the session it belongs to."""

    def seconds(self, now: int) -> float:
        """Return how long it is, until now if it is under way."""
        return max(0, (self.end if self.end is not None else now) - self.start) / 1000


class Work(Struct):
    """The clock of a run. It stands still between sessions, and while all tasks under way are parked."""

    ms: int = 0
    """How long at least one task, or the run as a whole, was worked on."""
    under_way: dict[str, TaskView] = field(default_factory=dict)
    """The tasks that were begun and have not ended, by key; the planning has an empty one."""
    stretches: list[Stretch] = field(default_factory=list)
    clock: int | None = None
    """Up to when work is counted; None: nobody works."""
    session: int = 0
    """How many sessions there were so far."""
    _open: dict[str, Stretch] = field(default_factory=dict)

    def tick(self, ts: int) -> None:
        """Count the time since the last event as work, for all who are at work."""
        passed = max(0, ts - self.clock) if self.clock is not None else 0
        self.ms += passed
        for task in self.under_way.values():
            if task.state != "parked":
                task.work_ms += passed
        self._set_clock(ts)

    def begin_session(self, ts: int) -> None:
        """Start the clock; nothing is under way any more."""
        self._close_all(self.clock if self.clock is not None else ts)
        self.under_way.clear()
        self.session += 1
        self.clock = ts

    def end_session(self, ts: int) -> None:
        """Stop the clock; what was under way stays known."""
        self._close_all(ts)
        self.clock = None

    def begin(self, task: TaskView, ts: int, after: str = "", why: str = "") -> None:
        """Begin a task, or begin it again. A task without a lane is the only one under way."""
        if task.lane == 0:
            self._close_all(ts)
            self.under_way.clear()
        self.under_way.pop("", None)
        self._close(task.key, ts)
        self.under_way[task.key] = task
        self._open_stretch(task, ts, after, why)
        self._set_clock(ts)

    def end(self, task: TaskView, ts: int) -> None:
        """End the work on a task."""
        self.under_way.pop(task.key, None)
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
            self._open_stretch(task, ts, task.key, "usage limit")
            self._set_clock(ts)

    def collide(self, task: TaskView, ts: int) -> None:
        """Mark the stretch whose work does not fit."""
        if stretch := self._open.get(task.key):
            stretch.collided = ts

    def merge(self, task: TaskView, ts: int, seconds: float) -> None:
        """Mark the stretch whose work was merged, and since when it was."""
        if stretch := self._open.get(task.key):
            stretch.merging = max(stretch.start, ts - round(seconds * 1000))

    def since(self, task: TaskView) -> int | None:
        """Return up to when work on a task is counted, if it is at work."""
        return self.clock if task.key in self.under_way and task.state != "parked" else None

    def _set_clock(self, ts: int) -> None:
        resting = self.under_way and all(task.state == "parked" for task in self.under_way.values())
        self.clock = None if resting else ts

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
