"""All settings at a glance: cost and pass rate of each, and how both change over time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import groupby

from msgspec import Struct

from segue.parts.lab.reports.report import Cell, ReportTable
from segue.parts.lab.reports.selection import Dataset
from segue.parts.lab.reports.statistics import mean, tally

FEWEST_IN_TREND = 10
"""With fewer runs there is no trend."""

_PERIODS = 12
_FEWEST_IN_PERIOD = 5
_FEWEST_WEEKS, _MOST_WEEKS = 4, 26
_WEEK = 7 * 86_400_000
_MONDAY = 3 * 86_400_000
"""The first day of 1970 was a Thursday."""


class RunOutcome(Struct, frozen=True):
    """How one run ended, and what it cost."""

    run: str
    created: int
    source: str
    setting: str
    passed: bool
    cost_usd: float | None


def tabulate_by_setting(outcomes: Sequence[RunOutcome], dataset: Dataset) -> ReportTable:
    """Tabulate pass rate and cost of every setting, all its sources together."""
    groups: dict[str, list[RunOutcome]] = defaultdict(list)
    for one in outcomes:
        groups[one.setting].append(one)
    rows = [(name, *_summarize(found)) for name, found in sorted(groups.items())]
    sources = [{one.source for one in found} for found in groups.values()]
    note = "All sources together. Filled points: no other setting is both cheaper and better."
    if any(other != sources[0] for other in sources):
        note += " The settings did not work on the same sources: a difference may come from that."
    return ReportTable(
        "by_setting",
        "Cost against pass rate",
        ("setting", "passed", "cost_usd"),
        tuple(rows),
        note,
        dataset.show_sql("by_setting"),
    )


def tabulate_trend(outcomes: Sequence[RunOutcome], dataset: Dataset) -> ReportTable:
    """Tabulate pass rate and cost by week, or by so many runs; no rows if there are too few."""
    ordered = sorted(outcomes, key=lambda one: (one.created, one.run))
    by_week = _FEWEST_WEEKS <= len({_find_week(one) for one in ordered}) <= _MOST_WEEKS
    size = max(_FEWEST_IN_PERIOD, -(-len(ordered) // _PERIODS))
    enough = len(ordered) >= FEWEST_IN_TREND
    note = f"Too few runs for a trend: {len(ordered)}; {FEWEST_IN_TREND} are needed."
    if enough:
        note = f"By {'week' if by_week else f'{size} runs'}, in the order of their start."
    if enough and len({one.setting for one in ordered}) > 1:
        note += (
            " All settings together: a change may come from their mixture. Choose an agent to see its own."
        )
    period = "(row_number() OVER (ORDER BY created, run_id) - 1) / " + str(size)
    return ReportTable(
        "trend",
        "Trend over time",
        ("period", "since", "passed", "cost_usd"),
        tuple(_list_periods(ordered, None if by_week else size)) if enough else (),
        note,
        dataset.show_sql("trend", period=f"(created + {_MONDAY}) / {_WEEK}" if by_week else period),
    )


def _list_periods(ordered: Sequence[RunOutcome], size: int | None) -> Iterator[tuple[Cell, ...]]:
    """Yield the row of every period: a week, or so many runs."""

    def find_period(item: tuple[int, RunOutcome]) -> int:
        return _find_week(item[1]) if size is None else item[0] // size

    for period, found in groupby(enumerate(ordered), find_period):
        runs = [one for _, one in found]
        began = period * _WEEK - _MONDAY if size is None else runs[0].created
        first = datetime.fromtimestamp(began / 1000, UTC).strftime("%Y-%m-%d")
        name = first if size is None else f"{period * size + 1}–{period * size + len(runs)}"
        yield name, first, *_summarize(runs)


def _summarize(runs: Sequence[RunOutcome]) -> tuple[Cell, Cell]:
    costs = [one.cost_usd for one in runs if one.cost_usd is not None]
    return tally((one.run, one.passed) for one in runs), mean(costs)


def _find_week(one: RunOutcome) -> int:
    """Return the number of the week in which a run began, from Monday to Sunday, UTC."""
    return (one.created + _MONDAY) // _WEEK
