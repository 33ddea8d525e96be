"""Rows of the database as values of the domain, and back."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import ValidationError, convert
from msgspec.structs import asdict

from segue.domain.errors import DamagedRecord
from segue.domain.run import Run, RunSpec, RunState, Step, StepState
from segue.store.database import Row
from segue.store.encoding import decode, encode, is_guarded
from segue.store.flat import FLAT_TABLES, ColumnType

if TYPE_CHECKING:
    from segue.domain.events import Event, Recorded

Rows = list[dict[str, Any]]
"""What a query returns: a mapping from columns to values for each row."""

RUN = "id, source_key, spec, state, owner, created, updated, wake, note"
STEP = (
    "run_id, key, gen, state, token, task, phase, attempt, input, output, started, ended"
    ", agent, model, build_phase"
)
EVENT = ("run_id", "seq", "ts", "step", "type", "data")
TABLES = {
    "runs": "id source_key kind spec state note wake owner lease claimed created updated replayed",
    "steps": "run_id key gen seq task phase build_phase attempt agent model state token input output started"
    " ended tries owner superseded",
    "events": "run_id seq ts step type data",
    "signals": "run_id id n topic payload sent consumed consumed_by",
    "prompts": "digest text created",
}
"""The columns of every table of the dataset."""

JSON_COLUMNS = frozenset({"spec", "input", "output", "data", "payload"})
_JSON_IN_VIEWS = frozenset(
    {"criteria", "checks", "commands_run"}
    | {column.name for table in FLAT_TABLES.values() for column in table.columns if column.type == "json"}
)
_FLAT = {table.view: table for table in FLAT_TABLES.values()}
_ORDER = {"runs": "created, id", "steps": "run_id, seq", "events": "run_id, seq", "signals": "run_id, n, id"}
_PARTS = ("origin", "trial", "repository")
"""Options that are objects of their own."""
_STATES = frozenset(StepState)


def steady() -> float:
    """Return seconds that only ever grow, however the clock is set; the machine's sleep counts, on Linux."""
    if sys.platform != "linux":
        return time.monotonic()
    return time.clock_gettime(time.CLOCK_BOOTTIME)


_BEGAN = time.time() - steady()


def now() -> int:
    """This process' clock, in milliseconds since the epoch: set once, so that no duration is negative."""
    return int((_BEGAN + steady()) * 1000)


class RunClock:
    """The clock of one run: it never goes back behind what another process wrote before."""

    def __init__(self, last: int) -> None:
        self._ahead = max(0, last - now())

    def now(self) -> int:
        """Return milliseconds since the epoch."""
        return now() + self._ahead


def process_of(owner: str) -> str:
    """Return the process of an owner: a process may have several claims, each with its own name."""
    return owner.partition("#")[0]


CHATTY = ("agent.text", "agent.tool", "agent.output", "agent.raw", "agent.usage", "trace.span")
"""What agents say by the thousand; an index leads past it."""


def select_events(kinds: Collection[str] = ()) -> str:
    """Return the query for a page of events: after a number, of some kinds or of all."""
    where = ""
    if kinds:
        quiet = "" if set(CHATTY) & set(kinds) else "".join(f" AND type <> '{name}'" for name in CHATTY)
        where = f"{quiet} AND type IN ({', '.join('?' * len(kinds))})"
    columns = ", ".join(EVENT)
    return (
        f"SELECT {columns} FROM orchestrator_events WHERE run_id = ? AND seq > ?{where}"  # noqa: S608
        " ORDER BY seq LIMIT ?"
    )


def encode_spec(spec: RunSpec) -> str:
    """A run's specification as JSON."""
    parts = {name: getattr(spec, name) for name in _PARTS}
    return encode({**asdict(spec), **{name: asdict(part) for name, part in parts.items() if part}})


def to_run(row: Row) -> Run:
    """A row of `orchestrator_runs`, selected by RUN."""
    id_, source_key, spec, state, owner, created, updated, wake, note = row
    process = process_of(owner) if owner else None
    try:
        known = to_spec(decode(spec))
        return Run(id_, source_key, known, RunState(state), process, created, updated, wake, note)
    except (ValueError, TypeError, AttributeError, ValidationError):
        raise DamagedRecord(f"the options of run {id_}") from None


def to_spec(options: dict[str, Any]) -> RunSpec:
    """A run's specification from JSON."""
    return convert(options, RunSpec)


def to_step(row: Row) -> Step:
    """A row of `orchestrator_steps`, selected by STEP."""
    run, key, gen, state, token, task, phase, attempt, given, output, started, ended, *who = row
    name = f"step {key} of run {run}"
    before, after = _read(given, name), _read(output, name)
    if state not in _STATES:
        raise DamagedRecord(name)
    return Step(
        run, key, gen, StepState(state), token, task, phase, attempt, before, after, started, ended, *who
    )


def select(table: str, runs: int = 0) -> str:
    """Return the query for all rows of a table, or of a view by its full name; of so many runs, or of all."""
    if flat := _FLAT.get(table):
        columns = ", ".join(column.name for column in flat.columns)
        where = f"WHERE run_id IN ({', '.join('?' * runs)}) " if runs else ""
        return f"SELECT {columns} FROM {flat.view} {where}ORDER BY run_id, {flat.columns[1].name}"  # noqa: S608
    columns = ", ".join(TABLES[table].split())
    return f"SELECT {columns} FROM orchestrator_{table} ORDER BY {_ORDER.get(table, '1')}"  # noqa: S608


def to_dicts(table: str, found: list[Row], as_text: bool = False) -> list[dict[str, Any]]:
    """Rows of `select` by the names of their columns; JSON is decoded, or left as text."""
    if flat := _FLAT.get(table):
        names: list[str] = [column.name for column in flat.columns]
        kinds: list[ColumnType] = [column.type for column in flat.columns]
    else:
        names = TABLES[table].split()
        kinds = ["json" if name in JSON_COLUMNS else "text" for name in names]
    readers = [_reader(kind, as_text) for kind in kinds]
    columns = [
        values if read is None else [value if value is None else read(value) for value in values]
        for read, values in zip(readers, zip(*found, strict=True), strict=True)
    ]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _reader(kind: ColumnType, as_text: bool) -> Callable[[Any], Any] | None:
    """Return how values of a type are read, for SQLite has no booleans and no dates; None: as they are."""
    if kind == "json":
        return _clean_json if as_text else decode
    readers: dict[str, Callable[[Any], Any]] = {"boolean": bool, "instant": _to_instant}
    return readers.get(kind)


def _to_instant(value: Any) -> Any:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def _clean_json(text: str) -> str:
    """Return JSON as text, without the marks of the encoding."""
    return json.dumps(decode(text)) if is_guarded(text) else text


def by_name(names: list[str], found: Sequence[Row]) -> list[dict[str, Any]]:
    """Rows of any query by the names of their columns, those that are called like a JSON column decoded."""
    encoded = [name for name in names if name in JSON_COLUMNS or name in _JSON_IN_VIEWS]
    records = [dict(zip(names, row, strict=True)) for row in found]
    for record in records if encoded else ():
        record.update((name, _decoded(record[name])) for name in encoded)
    return records


def _decoded(value: Any) -> Any:
    if not isinstance(value, str) or value[:1] not in ("{", "["):
        return value
    try:
        return decode(value)
    except ValueError:  # a text that somebody's query calls by that name
        return value


def to_events(found: Iterable[Row]) -> Iterator[Recorded]:
    """Rows of `orchestrator_events`, selected by EVENT."""
    from segue.domain.events import Recorded, parse_event  # a list of runs needs none of them

    for run, seq, ts, step, type_, data in found:
        is_plain = isinstance(data, str) and not is_guarded(data)
        event = parse_event(type_, data) if is_plain else None
        if event is None:
            event = _read_event(type_, data, f"event {seq} ({type_}) of run {run}")
        yield Recorded(run, seq, ts if isinstance(ts, int) else 0, step, event)


def _read_event(kind: str, data: Any, name: str) -> Event:
    from segue.domain.events import read_event

    return read_event(kind, _read(data, name))


def _read(text: Any, name: str) -> dict[str, Any]:
    """Return a record that the name is said of, if it cannot be read."""
    try:
        value = decode(text)
    except (ValueError, TypeError):
        value = None
    if not isinstance(value, dict):
        raise DamagedRecord(name)
    return value
