"""Time and cost of the next run, from comparable ones, and nothing where there are too few."""

from __future__ import annotations

import math
from typing import Any

import pytest

from segue.domain.run import RunKind
from segue.parts.lab.forecast import Outlook, Upcoming, ask_history
from segue.store import connect
from tests.reports.dataset import Written

NEXT = Upcoming(RunKind.BUILD, "Build a todo app", "Build a todo app", "claude opus", None)


def ask(data: Written, database: str, upcoming: Upcoming = NEXT) -> Outlook:
    with connect(data.write(database), read_only=True) as store:
        return ask_history(store, upcoming)


def add(data: Written, name: str, steps: int = 1, cost: float | None = 1.0, **more: Any) -> None:
    """Add a run of one task with so many launches of ten seconds; the first costs something."""
    run = data.run(name, **more)
    for attempt in range(1, steps + 1):
        usage = {"input_tokens": 1, "output_tokens": 1, "cost_usd": cost if attempt == 1 else None}
        run.execute(attempt, usage=usage)
    run.end()


def test_totals_of_the_same_source_and_agent_come_first(database: str) -> None:
    data = Written()
    for number, steps in enumerate((1, 2, 4)):
        add(data, f"same {number}", steps, cost=float(steps))
        add(data, f"other {number}", 9, agent="codex", model=None)
        add(data, f"plan {number}", 9, kind="plan")
    add(data, "running", 9, state="running")
    found = ask(data, database)
    assert (found.basis, found.runs, found.open) == ("runs of this source with claude opus", 3, 1)
    assert found.seconds is not None
    assert found.cost_usd is not None
    assert found.seconds.middle == pytest.approx(20)
    assert found.cost_usd.middle == pytest.approx(2)
    spread = math.log(2) * 1.8856 * math.sqrt(4 / 3)
    assert math.log(found.seconds.high / 20) == pytest.approx(spread, abs=1e-3)


def test_too_few_runs_give_no_number(database: str) -> None:
    data = Written()
    add(data, "one")
    add(data, "two")
    found = ask(data, database)
    assert (found.runs, found.seconds, found.cost_usd) == (2, None, None)
    assert found.to_json()["seconds"] is None


def test_runs_of_other_sources_count_if_they_are_alike(database: str) -> None:
    data = Written()
    for number in range(3):
        run = data.run(f"small {number}", source=f"small{number}.md", kind="plan")
        for task in "12":
            run.on(task).execute().end()
        big = data.run(f"big {number}", source=f"big{number}.md", kind="plan")
        for task in "123456789":
            big.on(task).execute().end()
    upcoming = Upcoming(RunKind.PLAN, "new", "new.md", "claude opus", 3)
    found = ask(data, database, upcoming)
    assert (found.runs, found.basis) == (3, "runs of kind plan with claude opus and about as many tasks")
    assert found.seconds is not None
    assert found.seconds.middle == pytest.approx(20)
    assert found.cost_usd is None, "what was not reported is not zero"
