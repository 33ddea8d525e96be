"""Selects the runs of a report, and runs the queries of `sql/` on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.amounts import parse_duration
from segue.domain.errors import UsageError
from segue.domain.run import TASK_RUNS, USUAL_RUNS, RunKind, RunState
from segue.store.rows import Rows
from segue.view.load import select_kinds

if TYPE_CHECKING:
    from segue.store.store import Store


_MARK = "/* filters */"
T = TypeVar("T")


class Selection(Struct, frozen=True):
    """Filters for runs: those of the usual kinds, if nothing else is asked for."""

    since: int | None = None
    """The earliest start of a run, in milliseconds since the epoch."""
    agent: str | None = None
    model: str | None = None
    sources: tuple[str, ...] | None = None
    """Exactly these sources."""
    runs: tuple[str, ...] | None = None
    """These runs only."""
    kind: RunKind | None = None
    """Runs of this kind only."""

    def to_sql(self, kinds: Iterable[RunKind] = USUAL_RUNS) -> tuple[str, list[object]]:
        """Return what to append to a condition on `orchestrator_runs`, and its arguments.

        `kinds` are meant where the filters name none.
        """
        wanted = (
            ("created >= ?", self.since),
            ("spec->>'agent' = ?", self.agent),
            ("spec->>'model' = ?", self.model),
        )
        parts = [(condition, value) for condition, value in wanted if value is not None]
        text = "".join(f" AND {condition}" for condition, _ in parts)
        values: list[object] = [value for _, value in parts]
        text += f" AND {select_kinds((self.kind,) if self.kind else kinds)}"
        for name, names in (("spec->>'source'", self.sources), ("id", self.runs)):
            if names is not None:
                text += f" AND {name} IN ({', '.join('?' * len(names)) or 'NULL'})"
                values += names
        return text, values


def count_begun(runs: Iterable[Mapping[str, Any]]) -> int:
    """Count the runs that a report is about: not those that still wait for a worker."""
    return sum(run["state"] != RunState.QUEUED for run in runs)


class Dataset:
    """Query results about the selected runs; each query runs once, however many reports need it."""

    def __init__(self, store: Store, selection: Selection) -> None:
        self._store = store
        self._selection = selection
        self._known: dict[str, Rows] = {}
        self._computed: dict[Callable[[Dataset], Any], Any] = {}

    def ask(self, query: str) -> Rows:
        """Return the rows of one of the queries."""
        if query not in self._known:
            conditions, arguments = self._selection.to_sql()
            self._known[query] = self._store.query(read_sql(query).replace(_MARK, conditions), arguments)
        return self._known[query]

    def compute(self, what: Callable[[Dataset], T]) -> T:
        """Return what follows from the rows; it too is computed once."""
        if what not in self._computed:
            self._computed[what] = what(self)
        found: T = self._computed[what]
        return found


def choose_kind(store: Store, selection: Selection) -> tuple[Selection, str]:
    """Choose a kind of the selected runs, if none is asked for, and say what is left out.

    It is the most frequent one; trials of experiments are chosen where there is nothing else.
    """
    if selection.kind is not None:
        return selection, ""
    conditions, arguments = selection.to_sql(TASK_RUNS)
    rows = store.query(
        f"SELECT kind, count(*) AS runs FROM orchestrator_runs WHERE true{conditions} GROUP BY kind",  # noqa: S608
        arguments,
    )
    counts = {RunKind(row["kind"]): int(row["runs"]) for row in rows}
    if not counts:
        return selection, ""
    order = sorted(counts, key=lambda kind: (kind not in USUAL_RUNS, -counts[kind], TASK_RUNS.index(kind)))
    others = [f"{counts[kind]} of kind {kind} (--kind {kind})" for kind in order[1:]]
    note = f"Kinds of runs are never mixed. Not included: {', '.join(others)}." if others else ""
    return replace(selection, kind=order[0]), note


def name_setting(run: Mapping[str, Any]) -> str:
    """Name what a run was made with: its experiment and arm, or its agent and model.

    Trials of one experiment whose settings were changed are told apart by the digest of their settings.
    """
    own = (f"{run['experiment']}/{run['arm']}",) if run["arm"] else (run["agent"], run["model"])
    return " ".join(part for part in (*own, run["variant"]) if part)


@cache
def read_sql(query: str) -> str:
    """Read the text of a query."""
    from importlib.resources import files

    return (files("segue.features.dataset.reports") / "sql" / f"{query}.sql").read_text(encoding="utf-8")


def select_runs(
    store: Store,
    since: str | None = None,
    agent: str | None = None,
    model: str | None = None,
    source: str | None = None,
    kind: str | None = None,
) -> Selection:
    """Select runs by what people say: `7d` or a date, names, a part of the source; None or empty: all."""
    begin = parse_since(since, time.time()) if since else None
    found = find_sources(store, source) if source else None
    kinds = [known for known in TASK_RUNS if known == kind]
    return Selection(begin, agent or None, model or None, found, kind=kinds[0] if kinds else None)


def find_sources(store: Store, text: str) -> tuple[str, ...]:
    """Find the sources of all runs that contain the text, ignoring case."""
    rows = store.query(
        f"SELECT DISTINCT spec->>'source' AS source FROM orchestrator_runs WHERE {select_kinds()}"  # noqa: S608
    )
    found = {str(row["source"]) for row in rows if row["source"] is not None}
    return tuple(sorted(name for name in found if text.casefold() in name.casefold()))


def parse_since(text: str, now: float) -> int:
    """Parse `7d`, a date or an instant into milliseconds since the epoch; local time without a zone."""
    ago = parse_duration(text)
    if ago is not None:
        return int((now - ago) * 1000)
    try:
        return int(datetime.fromisoformat(text.strip()).timestamp() * 1000)
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(
            f"{text!r} is not a date or duration.",
            hint="Write --since 7d, 12h, 2026-01-31 or 2026-01-31T14:00.",
        ) from error
