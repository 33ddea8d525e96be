"""Reports what was done about failed attempts, and how often the next attempt passed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from msgspec.structs import replace

from segue.domain.events import SearchDone, read_event
from segue.parts.lab.reports.report import Cell, DatasetReport, ReportTable, format_cell, make_table
from segue.parts.lab.reports.selection import Dataset
from segue.parts.lab.reports.statistics import CONFIDENCE, Difference, conclude, subtract, tally, tally_groups
from segue.parts.lab.reports.topics import group_by_topic
from segue.reports.timeline import Rows

ACTIONS = ("RETRY", "WEB_SEARCH", "RUN_DIAGNOSTIC", "MODIFY_PLAN")
NOT_RANDOM = (
    "Not randomised: the judge chose the action,"
    " so a difference may come from the failures it was chosen for."
)
_QUALIFIED = {
    (False, False): "",
    (True, False): ": what followed, not what helped",
    (False, True): ", randomised",
    (True, True): ": randomised, and what followed elsewhere",
}
"""What the headline says: whether the judge chose, and whether chance did."""

_LEVEL = 1 - (1 - CONFIDENCE) / (len(ACTIONS) - 1)
"""Three actions are compared with RETRY: together they may be wrong in one case of twenty."""


def report_recovery(dataset: Dataset) -> DatasetReport:
    """Report which actions help more than a plain retry, and which searches do."""
    attempts = dataset.ask("recovery")
    searches = [row for row in dataset.ask("searches") if row["next_result"] is not None]
    runs = len({row["run_id"] for row in attempts} | {row["run_id"] for row in searches})
    chosen = [row for row in attempts if row["eligible"] is None]
    judged = replace(_tabulate_actions(chosen), sql=_show_sql(dataset, "delivered = 1", "eligible IS NULL"))
    drawn = _tabulate_draws([row for row in attempts if row["eligible"] is not None])
    drawn = replace(drawn, sql=_show_sql(dataset, "true", "eligible IS NOT NULL"))
    actions = (drawn, judged) if drawn.rows else (judged, drawn)
    tables = (*actions, _tabulate_topics(searches), _tabulate_hosts(searches))
    notes = [*_describe(drawn, "By chance"), *_describe(judged, "Not randomised")]
    caveat = [NOT_RANDOM] if chosen else []
    title = f"Recovery{_QUALIFIED[bool(chosen), bool(drawn.rows)]}"
    return DatasetReport("recovery", title, runs, tables, (*caveat, *notes))


def _show_sql(dataset: Dataset, counted: str, chosen: str) -> str:
    return dataset.show_sql("recovery_rates", counted=counted, chosen=chosen)


def _tabulate_actions(attempts: Rows) -> ReportTable:
    """Tabulate what followed when the judge chose; what was not delivered is left out, but counted."""
    groups = {action: [row for row in attempts if row["action"] == action] for action in ACTIONS}
    return make_table(
        "actions", (_compare_action(action, groups[action], groups["RETRY"]) for action in ACTIONS)
    )


def _tabulate_draws(attempts: Rows) -> ReportTable:
    """Tabulate what chance chose: each action beside the retries where it could have been drawn too."""
    eligible = [(row, json.loads(row["eligible"])) for row in attempts]
    rows: list[tuple[Cell, ...]] = []
    for action in ACTIONS if attempts else ():
        taken = [row for row in attempts if row["action"] == action]
        retries = [row for row, could in eligible if row["action"] == "RETRY" and action in could]
        rows.append(_compare_action(action, taken, retries, by_draw=True))
    return make_table("randomised_actions", rows)


def _compare_action(action: str, taken: Rows, retries: Rows, by_draw: bool = False) -> tuple[Cell, ...]:
    """Return the row of an action; what was drawn counts without being delivered, or chance is undone."""
    counted = [row for row in taken if by_draw or row["delivered"]]
    rate = tally((row["run_id"], bool(row["recovered"])) for row in counted)
    difference = None
    if action != "RETRY":
        retry = tally((row["run_id"], bool(row["recovered"])) for row in retries)
        difference = subtract(rate, retry, _LEVEL)
    words = conclude(difference, "recovers more often", "recovers less often") if difference else ""
    return action, rate, difference, words, sum(not row["delivered"] for row in taken)


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


def _describe(actions: ReportTable, basis: str) -> Iterator[str]:
    for action, _, difference, conclusion, _ in actions.rows:
        if isinstance(difference, Difference) and difference.is_significant:
            yield f"{basis}: {action} {conclusion} than RETRY: {format_cell(difference)}."
