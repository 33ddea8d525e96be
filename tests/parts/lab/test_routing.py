"""What agents cost and reached by kind of task, on data whose figures are known."""

from __future__ import annotations

from segue.parts.lab.reports.build import build_reports
from segue.parts.lab.reports.report import ReportTable
from segue.parts.lab.reports.selection import Selection
from segue.parts.lab.reports.statistics import Mean, Proportion
from segue.store import connect
from tests.reports.dataset import Written, WrittenRun


def _spend(cost: float) -> dict[str, float]:
    return {"input_tokens": 80, "output_tokens": 20, "cost_usd": cost}


def _task(run: WrittenRun, key: str, escalated: bool) -> None:
    """Let the cheap agent do a task, and the strong one where it fails."""
    run.on(key).begin_task()
    run.event(None, "agent.chosen", task=key, kind="build", agent="cheap", reason="the first of the chain")
    run.execute(by=("cheap", None), usage=_spend(0.1), duration=5.0)
    if escalated:
        run.resolve(by=("strong", "big"), usage=_spend(2.0), duration=9.0)
    run.end()


def _report(data: Written, database: str) -> tuple[ReportTable, ReportTable]:
    data.write(database)
    with connect(database, read_only=True) as store:
        [report] = build_reports(store, ("routing",), Selection())
    one, other = report.tables
    return one, other


def test_what_agents_cost_and_what_other_choices_would_have(database: str) -> None:
    data = Written()
    for number in range(3):
        run = data.run(f"run-{number}")
        for task in range(4):
            _task(run, str(task), escalated=task >= 2)
    agents, choices = _report(data, database)
    cheap, strong = agents.rows
    assert isinstance(cheap[3], Proportion)
    assert cheap[3].interval is not None, "also of the tasks of one run"
    assert cheap[:4] == ("build", "cheap", 12, Proportion(((0, 1),) * 6 + ((1, 1),) * 6, "task"))
    assert strong[:4] == ("build", "strong:big", 6, Proportion(((1, 1),) * 6, "task"))
    was, first, last = choices.records()
    assert isinstance(was["cost_usd"], Mean)
    assert was["cost_usd"].value is not None
    assert round(was["cost_usd"].value, 6) == 13.2  # 12 × 0.10 and 6 × 2.00
    assert isinstance(first["cost_usd"], Mean)
    assert first["cost_usd"].value is not None
    assert round(first["cost_usd"].value, 6) == 1.2
    assert first["reached"] == cheap[3]
    assert isinstance(last["cost_usd"], Mean)
    assert last["cost_usd"].value == 24.0  # 12 × 2.00
    assert last["says"] == "estimated from 6 tasks that it got"


def test_too_few_data_are_said(database: str) -> None:
    data = Written()
    run = data.run("run")
    for task in range(6):
        _task(run, str(task), escalated=task == 0)
    _, choices = _report(data, database)
    last = choices.records()[2]
    assert (last["cost_usd"], last["says"]) == (None, "too few data: 1 of at least 5 tasks")
