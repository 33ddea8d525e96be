"""The reports in five plain lines, while there are too few runs for statistics."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from segue.domain.amounts import format_count, format_quantity
from segue.domain.run import RunState
from segue.features.dataset.reports.runs import read_usage, read_work
from segue.features.dataset.reports.selection import Dataset, Selection, choose_kind, count_begun
from segue.features.dataset.reports.statistics import FEWEST_RUNS

if TYPE_CHECKING:
    from segue.store.store import Store

_STATES = {RunState.NEEDS_HUMAN: "needs a human"}


def describe_few(store: Store, selection: Selection) -> list[str]:
    """Return five lines about the selected runs; none if there are enough for reports, or no runs."""
    chosen, left_out = choose_kind(store, selection)
    dataset = Dataset(store, chosen)
    runs = dataset.ask("runs")
    count = count_begun(runs)
    if not 0 < count < FEWEST_RUNS:
        return []
    states = Counter(_STATES.get(run["state"], str(run["state"])) for run in runs)
    said = ", ".join(f"{times} {state}" for state, times in states.most_common())
    kind = f" of kind {chosen.kind}" if chosen.kind else ""
    return [
        f"{format_count(count, 'run')}{kind}: {said}. {left_out}".strip(),
        _describe_tasks(dataset),
        _describe_attempts(dataset),
        _describe_use(dataset),
        f"Statistics begin with {FEWEST_RUNS} runs. Details: segue status last",
    ]


def _describe_tasks(dataset: Dataset) -> str:
    tasks = [task for task in dataset.ask("tasks") if task["ended"] and not task["replaced"]]
    done = [task for task in tasks if task["done"]]
    levels = Counter(str(task["level"] or "not recorded") for task in done)
    proven = "; ".join(f"{times} {level}" for level, times in levels.most_common())
    return f"Tasks: {len(done)} of {len(tasks)} done{f' ({proven})' if proven else ''}."


def _describe_attempts(dataset: Dataset) -> str:
    first = dataset.ask("first_verdicts")
    recovered = [row for row in dataset.ask("recovery") if row["delivered"]]
    helped = sum(row["recovered"] for row in recovered)
    again = f"; after a failure {helped} of {len(recovered)} next attempts did"
    passed = sum(bool(row["passed"]) for row in first)
    return f"First attempts: {passed} of {len(first)} passed{again if recovered else ''}."


def _describe_use(dataset: Dataset) -> str:
    used, work = dataset.compute(read_usage), read_work(dataset)
    seconds = format_quantity(sum(work.values()) / 1000, "seconds")
    costs = [one.usage.cost_usd for one in used.values() if one.usage.cost_usd is not None]
    cost = format_quantity(sum(costs), "cost_usd") if costs else "not reported"
    launches = sum(one.launches for one in used.values())
    words = "1 launch" if launches == 1 else f"{launches} launches"
    return f"Worked for {seconds}, {words}, cost: {cost}."
