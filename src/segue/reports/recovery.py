"""Recovery: what is done about a failed verdict, and how often the next attempt passes then."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from segue.reports.report import Cell, Report, Table
from segue.reports.selection import Dataset, Rows
from segue.reports.statistics import CONFIDENCE, Difference, Rate, newcombe
from segue.reports.topics import topics
from segue.reports.wording import wording

ACTIONS = ("RETRY", "WEB_SEARCH", "RUN_DIAGNOSTIC", "MODIFY_PLAN")
NO_DIFFERENCE = "no difference shown"
_LEVEL = 1 - (1 - CONFIDENCE) / (len(ACTIONS) - 1)
"""Three actions are held against RETRY: together they may be wrong in one case of twenty."""

K = TypeVar("K", bound=Hashable)


def recovery(dataset: Dataset) -> Report:
    """Which action helps, beside a plain retry, and which searches do."""
    attempts = dataset.ask("recovery")
    searches = [row for row in dataset.ask("searches") if row["next_result"] is not None]
    runs = len({row["run_id"] for row in attempts} | {row["run_id"] for row in searches})
    tables = (_actions(attempts), _topics(searches), _hosts(searches))
    return Report("recovery", "Recovery", runs, tables, tuple(_sentences(tables[0])))


def rates(pairs: Iterable[tuple[K, bool]]) -> dict[K, Rate]:
    """How often each one went well."""
    hits: dict[K, list[bool]] = defaultdict(list)
    for key, good in pairs:
        hits[key].append(good)
    return {key: Rate(sum(found), len(found)) for key, found in hits.items()}


def _actions(attempts: Rows) -> Table:
    found = rates((row["action"], bool(row["recovered"])) for row in attempts)
    retry = found.get("RETRY", Rate(0, 0))
    rows: list[tuple[Cell, ...]] = []
    for action in ACTIONS:
        rate = found.get(action, Rate(0, 0))
        difference = newcombe(rate, retry, _LEVEL) if action != "RETRY" else None
        rows.append((action, rate, difference, says(difference)))
    return Table(
        "actions",
        "What the next attempt makes of it",
        ("action", "recovered", "against_retry", "says"),
        tuple(rows),
        "Recovered: the next verdict was PASS. The judge chooses the action: a difference may also come from"
        " the failures it is chosen for. Intervals of differences are widened for three comparisons.",
    )


def says(difference: Difference | None) -> str:
    """What the difference lets one say."""
    if difference is None:
        return ""
    if not difference.shown:
        return NO_DIFFERENCE
    return "recovers more often" if difference.value > 0 else "recovers less often"


def _topics(searches: Rows) -> Table:
    topic = topics(str(row["query"] or "") for row in searches)
    found = rates((topic[str(row["query"] or "")], _passed(row)) for row in searches)
    return Table(
        "searches_by_topic",
        "Searches by topic",
        ("topic", "recovered"),
        tuple((name, found[name]) for name in sorted(found, key=lambda n: (-found[n].n, found[n].hits, n))),
        "Queries that share at least half of their words are one topic, named by the most frequent of them.",
    )


def _hosts(searches: Rows) -> Table:
    pairs = [(host, _passed(row)) for row in searches for host in _hosts_of(row["data"])]
    found = rates(pairs)
    return Table(
        "searches_by_source",
        "Searches by source",
        ("source", "recovered"),
        tuple((name, found[name]) for name in sorted(found, key=lambda n: (-found[n].n, found[n].hits, n))),
        "Each search counts once for every host among its results.",
    )


def _hosts_of(data: Any) -> list[str]:
    """The hosts among the results of a search, each once."""
    results = data.get("results") if isinstance(data, dict) else None
    found = (_host(hit.get("url")) for hit in results or () if isinstance(hit, dict))
    return sorted({host for host in found if host})


def _host(address: object) -> str:
    try:
        host = urlsplit(str(address)).hostname or ""
    except ValueError:
        return ""
    return host.removeprefix("www.")


def _passed(search: dict[str, Any]) -> bool:
    return bool(search["next_result"] == "PASS")


def _sentences(actions: Table) -> Iterable[str]:
    for action, _, difference, said in actions.rows:
        if isinstance(difference, Difference) and difference.shown:
            yield f"{action} {said} than RETRY: {wording(difference)}."
