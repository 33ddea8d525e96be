"""Selects the runs of a report, and runs the queries of `sql/` on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import cache
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.amounts import parse_duration
from segue.domain.errors import UsageError
from segue.domain.run import TASK_RUNS, USUAL_RUNS, RunKind, RunState
from segue.reports.timeline import Rows
from segue.view.load import select_kinds

if TYPE_CHECKING:
    from segue.store.store import Store


QUERIES = (
    *("runs", "launches", "work", "tasks", "first_verdicts", "titles", "errors", "recovery", "searches"),
    *("tools", "timeline", "trials", "isolation", "opinions", "routing", "lanes"),
)
"""The files under `sql/`; each runs unchanged on SQLite and on Postgres."""

_MARK = "/* filters */"
_SHARED = ("figures/outcomes", "figures/settings", "recovery", "opinions")
"""Queries that are parts of others."""
_SOURCE = "coalesce(nullif(spec->'trial'->>'prompt', ''), spec->>'source')"
"""What a run is about: of a trial the prompt of the experiment, however its arm words it."""

T = TypeVar("T")


class Selection(Struct, frozen=True):
    """Filters for runs: those of the usual kinds, if nothing else is asked for."""

    since: int | None = None
    """The earliest start of a run, in milliseconds since the epoch."""
    agent: str | None = None
    model: str | None = None
    sources: tuple[str, ...] | None = None
    """Exactly these sources."""
    run: str | None = None
    """This run only, whatever its kind."""
    kind: RunKind | None = None
    """Runs of this kind only."""
    experiment: str | None = None
    """Trials of this experiment only."""

    def to_sql(self, kinds: Iterable[RunKind] = USUAL_RUNS) -> tuple[str, list[object]]:
        """Return what to append to a condition on `orchestrator_runs`, and its arguments.

        `kinds` are meant where the filters name neither a kind nor a run.
        """
        wanted = (
            ("created >= ?", self.since),
            ("spec->>'agent' = ?", self.agent),
            ("spec->>'model' = ?", self.model),
            ("id = ?", self.run),
            ("spec->'trial'->>'experiment' = ?", self.experiment),
        )
        parts = [(condition, value) for condition, value in wanted if value is not None]
        text = "".join(f" AND {condition}" for condition, _ in parts)
        if self.run is None:
            text += f" AND {select_kinds((self.kind,) if self.kind else kinds)}"
        if self.sources is not None:
            text += f" AND {_SOURCE} IN ({', '.join('?' * len(self.sources)) or 'NULL'})"
        return text, [*(value for _, value in parts), *(self.sources or ())]


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
            text = _insert_shared(read_sql(query)).replace(_MARK, conditions)
            self._known[query] = self._store.query(text, arguments)
        return self._known[query]

    def compute(self, what: Callable[[Dataset], T]) -> T:
        """Return what follows from the rows; it too is computed once."""
        if what not in self._computed:
            self._computed[what] = what(self)
        found: T = self._computed[what]
        return found

    def show_sql(self, query: str, **parts: str) -> str:
        """Return the text of a query about the selected runs, complete, for people who ask themselves."""
        text = read_sql(f"figures/{query}")
        for name, part in parts.items():
            text = text.replace(f"/* {name} */", part)
        return self._fill_filters(text)

    def show_queries(self, names: Iterable[str]) -> str:
        """Return the texts of queries about the selected runs, one after the other."""
        return "\n".join(self._fill_filters(read_sql(name)) for name in names)

    def _fill_filters(self, text: str) -> str:
        text = _insert_shared(text)
        conditions, arguments = self._selection.to_sql()
        first, *rest = conditions.split("?")
        pairs = zip(map(_quote, arguments), rest, strict=True)
        return text.replace(f" {_MARK}", first + "".join(value + more for value, more in pairs))


def _insert_shared(text: str) -> str:
    for name in _SHARED:
        mark = f"/* {PurePosixPath(name).name} */"
        if mark in text:
            text = text.replace(mark, read_sql(name).rstrip(";\n"))
    return text


def _quote(value: object) -> str:
    """Return a value as SQL."""
    return str(value) if isinstance(value, int) else "'" + str(value).replace("'", "''") + "'"


def choose_kind(store: Store, selection: Selection) -> tuple[Selection, str]:
    """Choose a kind of the selected runs, if none is asked for, and say what is left out.

    It is the most frequent one; trials of experiments are chosen where there is nothing else.
    """
    if selection.kind is not None or selection.run is not None:
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
    """Name what a run was made with: its experiment and arm, or its agent and model."""
    if run["arm"]:
        return name_arm(run["experiment"], run["arm"])
    return " ".join(part for part in (run["agent"], run["model"]) if part)


def name_arm(experiment: str, arm: str) -> str:
    """Name an arm of an experiment: others may have one of the same name."""
    return f"{experiment}/{arm}"


@cache
def read_sql(query: str) -> str:
    """Read the text of a query."""
    from importlib.resources import files

    return (files("segue.parts.lab.reports") / "sql" / f"{query}.sql").read_text(encoding="utf-8")


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
        f"SELECT DISTINCT {_SOURCE} AS source FROM orchestrator_runs WHERE {select_kinds()}"  # noqa: S608
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
