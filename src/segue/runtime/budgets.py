"""What was spent and what is left of the caps, as the database knows it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from segue.domain.outcome import Budget, Scope, Usage
from segue.domain.run import Run

if TYPE_CHECKING:
    from segue.store.store import Store

_NAMES = {"run": "this run", "day": "today"}
_SQL = """
SELECT sum(CAST(s.output->'usage'->>'input_tokens' AS bigint)) AS input_tokens,
       sum(CAST(s.output->'usage'->>'output_tokens' AS bigint)) AS output_tokens,
       sum(CAST(s.output->'usage'->>'cost_usd' AS double precision)) AS cost_usd
FROM orchestrator_steps s
WHERE s.agent IS NOT NULL AND s.ended IS NOT NULL AND """


def read_usage(store: Store, scope: Scope, run: str = "", task: str = "") -> Usage:
    """Return what launches that have ended used: of a run, of one of its tasks, or today."""
    conditions: dict[Scope, tuple[str, list[object]]] = {
        "run": ("s.run_id = ?", [run]),
        "task": ("s.run_id = ? AND s.task = ?", [run, task]),
        "day": ("s.ended >= ?", [_midnight()]),
    }
    condition, values = conditions[scope]
    [row] = store.query(f"{_SQL}{condition}", values)
    cost = None if row["cost_usd"] is None else float(row["cost_usd"])
    return Usage(int(row["input_tokens"] or 0), int(row["output_tokens"] or 0), cost)


def _midnight() -> int:
    """Return when today began here, in milliseconds since the epoch."""
    now = time.localtime()
    return int(time.mktime((now.tm_year, now.tm_mon, now.tm_mday, 0, 0, 0, 0, 0, -1)) * 1000)


class Allowance(Struct, frozen=True):
    """What is left of one cap."""

    scope: str
    what: str
    cap: float
    spent: float
    task: str = ""
    """The task whose cap it is."""

    @property
    def name(self) -> str:
        """What the cap is for, in words."""
        return f"task {self.task}" if self.task else _NAMES[self.scope]

    @property
    def left(self) -> float:
        """What may still be used."""
        return max(0.0, self.cap - self.spent)

    def describe(self) -> str:
        """Return it in words: `$1.20 of $5.00`."""
        if self.what == "cost_usd":
            return f"${self.left:,.2f} of ${self.cap:,.2f}"
        return f"{self.left:,.0f} of {self.cap:,.0f} {self.what}"

    def data(self) -> dict[str, Any]:
        """Return what programs read."""
        return {
            "scope": self.scope,
            "task": self.task or None,
            "what": self.what,
            "cap": self.cap,
            "spent": self.spent,
            "left": self.left,
        }


def find_left(
    store: Store,
    caps: Mapping[Scope, Budget],
    run: Run | None = None,
    launches: int = 0,
    tasks: Sequence[str] = (),
) -> list[Allowance]:
    """Return what is left of the caps of a run, of some of its tasks, and of today."""
    return list(_find_left(store, caps, run, launches, tasks))


def _find_left(
    store: Store, caps: Mapping[Scope, Budget], run: Run | None, launches: int, tasks: Sequence[str]
) -> Iterator[Allowance]:
    own: list[tuple[Scope, str]] = [("run", ""), *(("task", task) for task in tasks)]
    for scope, task in (*(own if run is not None else ()), ("day", "")):
        cap = caps.get(scope, Budget())
        if cap == Budget():
            continue
        usage = read_usage(store, scope, run.id if run is not None else "", task)
        used = {"launches": launches, "tokens": usage.tokens, "cost_usd": usage.cost_usd or 0.0}
        for what, value in used.items():
            if (most := getattr(cap, what)) is not None:
                yield Allowance(scope, what, most, value, task)


def describe_left(found: list[Allowance]) -> str:
    """Return one line about what is left; empty if nothing is limited."""
    named = dict.fromkeys(one.name for one in found)
    parts = [f"{name} {', '.join(one.describe() for one in found if one.name == name)}" for name in named]
    return f"Left: {'; '.join(parts)}." if parts else ""
