"""Reports what was done about failed attempts, and how often the next attempt passed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from segue.domain.events import SearchDone, read_event
from segue.features.dataset.reports.report import Cell, DatasetReport, ReportTable, format_cell, make_table
from segue.features.dataset.reports.selection import Dataset
from segue.features.dataset.reports.statistics import (
    CONFIDENCE,
    Difference,
    Proportion,
    conclude,
    subtract,
    tally,
    tally_groups,
)
from segue.features.dataset.reports.topics import group_by_topic
from segue.store.rows import Rows

ACTIONS = ("RETRY", "WEB_SEARCH", "RUN_DIAGNOSTIC", "MODIFY_PLAN")
CAVEAT = "The judge chose the action, so a difference may come from the failures it was chosen for."

_LEVEL = 1 - (1 - CONFIDENCE) / (len(ACTIONS) - 1)
"""Three actions are compared with RETRY: together they may be wrong in one case of twenty."""


def report_recovery(dataset: Dataset) -> DatasetReport:
    """Report which actions help more than a plain retry, and which searches do."""
    attempts = dataset.ask("recovery")
    searches = [row for row in dataset.ask("searches") if row["next_result"] is not None]
    runs = len({row["run_id"] for row in attempts} | {row["run_id"] for row in searches})
    actions = _tabulate_actions(attempts)
    tables = (actions, _tabulate_topics(searches), _tabulate_hosts(searches))
    notes = (*([CAVEAT] if attempts else []), *_describe(actions))
    title = f"Recovery{': what followed, not what helped' if attempts else ''}"
    return DatasetReport("recovery", title, runs, tables, notes)


def _tabulate_actions(attempts: Rows) -> ReportTable:
    """Tabulate what followed each action; what was not delivered is left out, but counted."""
    groups = {action: [row for row in attempts if row["action"] == action] for action in ACTIONS}
    return make_table(
        "actions", (_compare_action(action, groups[action], groups["RETRY"]) for action in ACTIONS)
    )


def _compare_action(action: str, taken: Rows, retries: Rows) -> tuple[Cell, ...]:
    """Return the row of an action."""
    rate = _rate_recovered(taken)
    difference = None if action == "RETRY" else subtract(rate, _rate_recovered(retries), _LEVEL)
    words = conclude(difference, "recovers more often", "recovers less often") if difference else ""
    return action, rate, difference, words, sum(not row["delivered"] for row in taken)


def _rate_recovered(taken: Rows) -> Proportion:
    return tally((row["run_id"], bool(row["recovered"])) for row in taken if row["delivered"])


def _tabulate_topics(searches: Rows) -> ReportTable:
    topic = group_by_topic(str(row["query"] or "") for row in searches)
    cases = [(topic[str(row["query"] or "")], row["run_id"], _is_passed(row)) for row in searches]
    return _tabulate_searches("topic", cases)


def _tabulate_hosts(searches: Rows) -> ReportTable:
    cases = [(host, row["run_id"], _is_passed(row)) for row in searches for host in _list_hosts(row["data"])]
    return _tabulate_searches("source", cases)


def _tabulate_searches(by: str, cases: list[tuple[str, str, bool]]) -> ReportTable:
    found = tally_groups(cases)
    rows = sorted(found.items(), key=lambda item: (-item[1].n, item[1].hits, item[0]))
    return make_table(f"searches_by_{by}", rows)


def _list_hosts(data: Any) -> list[str]:
    """List the hosts among the results of a search, each once."""
    event = read_event(SearchDone.type, data)
    results = event.results if isinstance(event, SearchDone) else ()
    return sorted({_parse_host(hit.url) for hit in results} - {""})


def _parse_host(address: str) -> str:
    try:
        host = urlsplit(address).hostname or ""
    except ValueError:
        return ""
    return host.removeprefix("www.")


def _is_passed(search: dict[str, Any]) -> bool:
    return bool(search["next_result"] == "PASS")


def _describe(actions: ReportTable) -> Iterator[str]:
    for action, _, difference, conclusion, _ in actions.rows:
        if isinstance(difference, Difference) and difference.is_significant:
            yield f"{action} {conclusion} than RETRY: {format_cell(difference)}."
