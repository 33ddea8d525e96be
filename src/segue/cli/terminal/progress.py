"""What is known of a run while it works, from its events alone: a row per task, and what was used."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from segue.domain.budget import Budget
from segue.domain.event import EventType, Json, Recorded
from segue.domain.run import Step
from segue.flow.context import Spent
from segue.reports.event_text import describe_event
from segue.store.projections import TaskView

_PLANNING, _ENDING = "", "/"
"""Where the rows of the steps before the first task and after the last one stand; no task has such a key."""

_NEWS = {
    EventType.RUN_PARKED,
    EventType.FALLBACK,
    EventType.SEARCH,
    EventType.DIAGNOSTIC,
    EventType.PLAN_REVISED,
    EventType.STATE_IMPORTED,
    EventType.NOTICE,
}
"""What a person should not miss, although the next event comes soon."""

_COUNTED = {
    EventType.FALLBACK: ("fallback", "fallbacks"),
    EventType.SEARCH: ("search", "searches"),
    EventType.PLAN_REVISED: ("plan made", "plans made"),
}
_LAST_NEWS = 3


@dataclass(slots=True)
class Row:
    """One task as it stands."""

    key: str
    title: str
    state: str = "pending"
    phase: str = ""
    attempt: int = 0
    started: float | None = None
    ended: float | None = None
    wake: float | None = None
    tokens: int = 0
    cost: float = 0.0
    last: str = ""
    whole: bool = False
    """Whether it belongs to the whole run, not to a task."""

    def seconds(self, now: float) -> float | None:
        """How long it has been worked on."""
        return None if self.started is None else max(0.0, (self.ended or now) - self.started)


@dataclass(slots=True)
class Progress:
    """A run as seen from its events; `take` is called for each of them."""

    rows: dict[str, Row]
    began: float
    budget: Budget = Budget()
    launches: int = 0
    tokens: int = 0
    cost: float = 0.0
    counted: Counter[EventType] = field(default_factory=Counter)
    news: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=_LAST_NEWS))
    current: Row | None = None

    @classmethod
    def of(cls, titles: Mapping[str, str], budget: Budget = Budget()) -> Progress:
        """A run that begins."""
        return cls({key: Row(key, title) for key, title in titles.items()}, time.time(), budget)

    def know(self, views: Iterable[TaskView], steps: list[Step]) -> None:
        """Take in what earlier processes have done of the run."""
        for view in views:
            row = Row(view.key, view.title, view.state, view.phase, view.attempts)
            row.tokens, row.cost = view.tokens, view.cost_usd
            row.state = "pending" if row.state in ("running", "parked", "stopped") else row.state
            if view.started and view.ended:
                row.started, row.ended = view.started / 1000, view.ended / 1000
            self.rows[view.key] = row
        spent = Spent.of(steps)
        self.launches, self.tokens, self.cost = spent.launches, spent.usage.tokens, spent.usage.cost_usd

    def take(self, event: Recorded) -> None:
        """See one event."""
        kind, at = EventType(event.type), event.ts / 1000
        said = describe_event(event)
        if kind in _COUNTED:
            self.counted[kind] += 1
        if kind in _NEWS and said:
            self.news.append((at, said))
        if kind is EventType.PLAN_REVISED:
            self._replan(event.data["titles"])
        row = self._row(event)
        if row is None:
            return
        self.current = row
        _TAKE.get(kind, _nothing)(row, event.data, at)
        row.last = _activity(event, said) if said else row.last
        if kind is EventType.AGENT_STARTED:
            self.launches += 1
        elif kind is EventType.AGENT_ENDED:
            self._spend(row, event.data.get("usage") or {})

    def counts(self) -> str:
        """The fallbacks, searches and plans so far, in words."""
        named = ((self.counted[kind], words) for kind, words in _COUNTED.items())
        return " · ".join(f"{count} {words[count != 1]}" for count, words in named if count)

    def _row(self, event: Recorded) -> Row | None:
        place = (event.step or "").split("/")
        if place[0] == "final":
            return self.rows.setdefault(_ENDING, Row("end", "Final commands", whole=True))
        key = place[1] if place[0] == "task" else event.data.get("task")
        if key:
            return self.rows.setdefault(key, Row(key, event.data.get("title", f"Task {key}")))
        if (place[0] == "run" and len(place) > 2) or key is not None:
            return self._planning()
        return None

    def _planning(self) -> Row:
        if _PLANNING not in self.rows:
            self.rows = {_PLANNING: Row("plan", "Plan the steps", whole=True), **self.rows}
        return self.rows[_PLANNING]

    def _replan(self, titles: Mapping[str, str]) -> None:
        """The tasks of the new plan; what was planned before and never begun is gone."""
        begun = {key: row for key, row in self.rows.items() if row.started is not None or key in titles}
        self.rows = begun | {key: Row(key, title) for key, title in titles.items() if key not in begun}
        for key, title in titles.items():
            self.rows[key].title = title

    def _spend(self, row: Row, usage: Json) -> None:
        tokens = usage.get("input_tokens", 0) + usage.get("output_tokens", 0)
        cost = usage.get("cost_usd") or 0.0
        row.tokens, row.cost = row.tokens + tokens, row.cost + cost
        self.tokens, self.cost = self.tokens + tokens, self.cost + cost


def _activity(event: Recorded, said: str) -> str:
    """What happens to a task, without what its row says anyway."""
    for known in (f"task {event.data.get('task')} ", "agent: ", "agent uses "):
        said = said.removeprefix(known)
    return said


def _nothing(_row: Row, _data: Json, _at: float) -> None:
    pass


def _begin(row: Row, _data: Json, at: float) -> None:
    row.state, row.started, row.ended = "running", at, None


def _step(row: Row, data: Json, at: float) -> None:
    row.started = row.started or at
    if data["phase"] == "sleep":
        return
    row.state, row.wake = "running", None
    if data["phase"] != "commit":
        row.phase, row.attempt = str(data["phase"] or ""), data["attempt"]


def _go_on(row: Row, _data: Json, at: float) -> None:
    row.started = row.started or at
    row.state = "running"


def _park(row: Row, data: Json, _at: float) -> None:
    row.state, row.wake = "parked", data["until"]


def _end_step(row: Row, data: Json, at: float) -> None:
    if row.whole:
        row.state, row.ended = "done" if data["ok"] else "failed", at


def _end(row: Row, data: Json, at: float) -> None:
    row.ended = at
    if data["done"]:
        row.state = "skipped" if data.get("skipped") else "done"
    else:
        row.state = "replanned" if data.get("replanned") else "needs_human"


_TAKE = {
    EventType.TASK_STARTED: _begin,
    EventType.STEP_STARTED: _step,
    EventType.STEP_ADOPTED: _go_on,
    EventType.RUN_PARKED: _park,
    EventType.STEP_ENDED: _end_step,
    EventType.TASK_ENDED: _end,
}
