"""Which runs a report is about, and the questions put to the store: the SQL of `sql/`, filtered."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from segue.ports import Store

QUESTIONS = ("runs", "tasks", "titles", "errors", "recovery", "searches", "tools", "timeline")
"""The files under `sql/`; each runs as it stands on SQLite and on Postgres."""

_MARK = "/* filters */"

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which runs count; all of them if nothing is named."""

    since: int | None = None
    """The run began at this instant (milliseconds since the epoch) or later."""
    agent: str | None = None
    model: str | None = None
    sources: tuple[str, ...] | None = None
    """Exactly these sources."""
    run: str | None = None

    def conditions(self) -> tuple[str, list[object]]:
        """What is added to the condition on `orchestrator_runs`, and its arguments."""
        wanted = (
            ("created >= ?", self.since),
            ("spec->>'agent' = ?", self.agent),
            ("spec->>'model' = ?", self.model),
            ("id = ?", self.run),
        )
        parts = [(condition, value) for condition, value in wanted if value is not None]
        text = "".join(f" AND {condition}" for condition, _ in parts)
        if self.sources is not None:
            text += f" AND spec->>'source' IN ({', '.join('?' * len(self.sources)) or 'NULL'})"
        return text, [*(value for _, value in parts), *(self.sources or ())]


class Dataset:
    """What the store answers about the chosen runs; what several reports ask is asked once."""

    def __init__(self, store: Store, selection: Selection) -> None:
        self._store = store
        self._selection = selection
        self._known: dict[str, Rows] = {}

    def ask(self, question: str) -> Rows:
        """The rows that answer one of the questions."""
        if question not in self._known:
            conditions, arguments = self._selection.conditions()
            text = sql(question).replace(_MARK, conditions)
            self._known[question] = self._store.query(text, arguments)
        return self._known[question]


@cache
def sql(question: str) -> str:
    """The text of a question."""
    from importlib.resources import files

    return (files("segue.reports") / "sql" / f"{question}.sql").read_text(encoding="utf-8")


def sources(store: Store, text: str) -> tuple[str, ...]:
    """The sources of all runs whose name holds the text, whatever its case."""
    rows = store.query("SELECT DISTINCT spec->>'source' AS source FROM orchestrator_runs")
    found = {str(row["source"]) for row in rows if row["source"] is not None}
    return tuple(sorted(name for name in found if text.casefold() in name.casefold()))
