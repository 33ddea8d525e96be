"""Reports what was done about failed verdicts, and how often the next attempt passed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from segue.reports.formatting import format_cell
from segue.reports.report import Cell, DatasetReport, ReportTable
from segue.reports.selection import Dataset, Rows
from segue.reports.statistics import CONFIDENCE, Difference, Proportion, newcombe
from segue.reports.topics import group_by_topic

ACTIONS = ("RETRY", "WEB_SEARCH", "RUN_DIAGNOSTIC", "MODIFY_PLAN")
NO_DIFFERENCE = "no significant difference"
_LEVEL = 1 - (1 - CONFIDENCE) / (len(ACTIONS) - 1)
"""Three actions are compared with RETRY: together they may be wrong in one case of twenty."""

K = TypeVar("K", bound=Hashable)


def report_recovery(dataset: Dataset) -> DatasetReport:
    """Report which actions help more than a plain retry, and which searches do."""
    attempts = dataset.ask("recovery")
    searches = [row for row in dataset.ask("searches") if row["next_result"] is not None]
    runs = len({row["run_id"] for row in attempts} | {row["run_id"] for row in searches})
    tables = (_tabulate_actions(attempts), _tabulate_topics(searches), _tabulate_hosts(searches))
    return DatasetReport("recovery", "Recovery", runs, tables, tuple(_describe(tables[0])))


def count_successes(pairs: Iterable[tuple[K, bool]]) -> dict[K, Proportion]:
    """Count how often each key succeeded."""
    hits: dict[K, list[bool]] = defaultdict(list)
    for key, good in pairs:
        hits[key].append(good)
    return {key: Proportion(sum(found), len(found)) for key, found in hits.items()}


def _tabulate_actions(attempts: Rows) -> ReportTable:
    found = count_successes((row["action"], bool(row["recovered"])) for row in attempts)
    retry = found.get("RETRY", Proportion(0, 0))
    rows: list[tuple[Cell, ...]] = []
    for action in ACTIONS:
        rate = found.get(action, Proportion(0, 0))
        difference = newcombe(rate, retry, _LEVEL) if action != "RETRY" else None
        rows.append((action, rate, difference, conclude(difference)))
    return ReportTable(
        "actions",
        "Recovery rate by action",
        ("action", "recovered", "against_retry", "says"),
        tuple(rows),
        "Recovered: the next verdict was PASS. The judge chooses the action: a difference may also come from"
        " the failures it was chosen for. Intervals of differences are widened for three comparisons.",
    )


def conclude(difference: Difference | None) -> str:
    """Say in words what the difference shows."""
    if difference is None:
        return ""
    if not difference.is_significant:
        return NO_DIFFERENCE
    return "recovers more often" if difference.value > 0 else "recovers less often"


def _tabulate_topics(searches: Rows) -> ReportTable:
    topic = group_by_topic(str(row["query"] or "") for row in searches)
    pairs = [(topic[str(row["query"] or "")], _is_passed(row)) for row in searches]
    note = "Queries that share at least half of their words form a topic, named after the most frequent one."
    return _tabulate_searches("topic", pairs, note)


def _tabulate_hosts(searches: Rows) -> ReportTable:
    pairs = [(host, _is_passed(row)) for row in searches for host in _list_hosts(row["data"])]
    return _tabulate_searches("source", pairs, "Each search counts once for every host among its results.")


def _tabulate_searches(by: str, pairs: list[tuple[str, bool]], note: str) -> ReportTable:
    found = count_successes(pairs)
    rows = sorted(found.items(), key=lambda item: (-item[1].n, item[1].hits, item[0]))
    return ReportTable(f"searches_by_{by}", f"Searches by {by}", (by, "recovered"), tuple(rows), note)


def _list_hosts(data: Any) -> list[str]:
    """List the hosts among the results of a search, each once."""
    results = data.get("results") if isinstance(data, dict) else None
    found = (_parse_host(hit.get("url")) for hit in results or () if isinstance(hit, dict))
    return sorted({host for host in found if host})


def _parse_host(address: object) -> str:
    try:
        host = urlsplit(str(address)).hostname or ""
    except ValueError:
        return ""
    return host.removeprefix("www.")


def _is_passed(search: dict[str, Any]) -> bool:
    return bool(search["next_result"] == "PASS")


def _describe(actions: ReportTable) -> Iterable[str]:
    for action, _, difference, conclusion in actions.rows:
        if isinstance(difference, Difference) and difference.is_significant:
            yield f"{action} {conclusion} than RETRY: {format_cell(difference)}."
