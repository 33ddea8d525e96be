"""What was spent and what is left of the caps, as the database knows it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from segue.domain.amounts import format_duration
from segue.domain.outcome import Budget, Scope, Spent, Usage
from segue.domain.run import Run

if TYPE_CHECKING:
    from segue.store.store import Store

_NAMES = {"run": "this run", "day": "today", "repository": "this repository"}
_SQL = """
SELECT sum(CAST(s.output->'usage'->>'input_tokens' AS bigint)) AS input_tokens,
       sum(CAST(s.output->'usage'->>'output_tokens' AS bigint)) AS output_tokens,
       sum(CAST(s.output->'usage'->>'cost_usd' AS double precision)) AS cost_usd,
       sum(CAST(s.output->>'duration' AS double precision)) AS seconds
FROM orchestrator_steps s JOIN orchestrator_runs r ON r.id = s.run_id
WHERE s.agent IS NOT NULL AND s.ended IS NOT NULL AND """


def read_spent(store: Store, scope: Scope, run: str, repo: str, task: str = "") -> Spent:
    """Return what launches that have ended cost: of a run or one of its tasks, today, or in a repository."""
    conditions: dict[Scope, tuple[str, list[object]]] = {
        "run": ("s.run_id = ?", [run]),
        "task": ("s.run_id = ? AND s.task = ?", [run, task]),
        "day": ("s.ended >= ?", [_midnight()]),
        "repository": ("r.spec->>'repo' = ?", [repo]),
    }
    condition, values = conditions[scope]
    [row] = store.query(f"{_SQL}{condition}", values)
    cost = None if row["cost_usd"] is None else float(row["cost_usd"])
    used = Usage(int(row["input_tokens"] or 0), int(row["output_tokens"] or 0), cost)
    return Spent(used, float(row["seconds"] or 0.0))


def spending_of(store: Store, run: str, repo: str) -> Callable[[Scope, str], Spent]:
    """Return what reads the spending around one run."""
    return lambda scope, task: read_spent(store, scope, run, repo, task)


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
        if self.what == "seconds":
            return f"{format_duration(self.left)} of {format_duration(self.cap)}"
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
    repo: str,
    run: Run | None = None,
    launches: int = 0,
    tasks: Sequence[str] = (),
) -> list[Allowance]:
    """Return what is left of the caps of a run, of some of its tasks, of today and of a repository."""
    return list(_find_left(store, caps, repo, run, launches, tasks))


def _find_left(
    store: Store,
    caps: Mapping[Scope, Budget],
    repo: str,
    run: Run | None,
    launches: int,
    tasks: Sequence[str],
) -> Iterator[Allowance]:
    around: list[tuple[Scope, str]] = [("day", ""), ("repository", "")]
    own: list[tuple[Scope, str]] = [("run", ""), *(("task", task) for task in tasks)]
    for scope, task in [*own, *around] if run is not None else around:
        cap = caps.get(scope, Budget())
        if cap == Budget():
            continue
        spent = read_spent(store, scope, run.id if run is not None else "", repo, task)
        used = {
            "launches": launches,
            "tokens": spent.usage.tokens,
            "cost_usd": spent.usage.cost_usd or 0.0,
            "seconds": spent.seconds,
        }
        for what, value in used.items():
            if (most := getattr(cap, what)) is not None:
                yield Allowance(scope, what, most, value, task)


def describe_left(found: list[Allowance]) -> str:
    """Return one line about what is left; empty if nothing is limited."""
    named = dict.fromkeys(one.name for one in found)
    parts = [f"{name} {', '.join(one.describe() for one in found if one.name == name)}" for name in named]
    return f"Left: {'; '.join(parts)}." if parts else ""
