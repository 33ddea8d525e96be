"""Records that were damaged: read as far as they go, found, and repaired.

A text that was cut, which only SQLite can hold, still has the pairs before the cut; either database can hold
values of another type than belongs there. One damaged record costs one record.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, ValidationError, convert

from segue.domain.errors import DamagedRecord
from segue.domain.events import UnknownEvent, is_known, read_event
from segue.domain.log import Log
from segue.domain.results import is_readable
from segue.domain.run import RunSpec, RunState, StepState
from segue.store.database import Database
from segue.store.encoding import DAMAGED, decode, encode
from segue.store.rows import RUN, to_run

_LOG = Log("store")
_named: set[str] = set()
_SPACE = " \t\r\n"
_BATCH = 1000
_KEYS = {
    "runs": ("id",),
    "events": ("run_id", "seq"),
    "steps": ("run_id", "key", "gen"),
    "signals": ("run_id", "id"),
}
"""For each table: the columns that tell its rows apart, the run first."""


class Damage(Struct, frozen=True):
    """One damaged record."""

    table: str
    keys: tuple[object, ...]
    """The run, and the number of an event, the key of a step, or the id of a message."""
    column: str
    text: str

    @property
    def run(self) -> str:
        """The run it belongs to."""
        return str(self.keys[0])

    @property
    def name(self) -> str:
        """The record as people call it."""
        kind = {"events": "event", "steps": "step", "signals": "message"}.get(self.table, "")
        return f"{kind} {self.keys[1]} of run {self.run}" if kind else f"the options of run {self.run}"

    @property
    def where(self) -> str:
        """The condition that selects it by its keys."""
        return " AND ".join(f"{column} = ?" for column in _KEYS[self.table])


def read_damaged(text: str | bytes, name: str) -> dict[str, Any]:
    """Return what can be read of a damaged record, and DAMAGED; tell its name, once."""
    tell_damaged(name)
    return {**salvage(_as_text(text)), DAMAGED: True}


def tell_damaged(name: str) -> None:
    """Tell the name of a damaged record, once."""
    if name not in _named:
        _named.add(name)
        _LOG.tell(f"The record of {name} is damaged. What can be had: segue db repair")


def _as_text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def salvage(text: str) -> dict[str, Any]:
    """Return the pairs of a cut JSON object that are whole."""
    scan, found, at = json.JSONDecoder().raw_decode, dict[str, Any](), text.find("{") + 1
    try:
        while at:
            name, at = scan(text, _skip(text, at))
            value, at = scan(text, _skip(text, _skip(text, at, ":")))
            at = _skip(text, at)
            if text[at] not in ",}":
                break
            found[name] = value
            at = at + 1 if text[at] == "," else 0
    except (ValueError, IndexError, TypeError, RecursionError):
        pass  # the cut
    return found


def _skip(text: str, at: int, mark: str = "") -> int:
    """Return where the next value begins: after spaces, and after a mark if one must come."""
    while text[at] in _SPACE:
        at += 1
    if mark and text[at] != mark:
        raise ValueError(text)
    return at + len(mark)


def find_damage(database: Database) -> list[Damage]:
    """Return every damaged record of a database."""
    return [*_in_runs(database), *_in_events(database), *_in_steps(database), *_in_signals(database)]


def _in_runs(database: Database) -> Iterator[Damage]:
    for row in database.execute(f"SELECT {RUN} FROM orchestrator_runs ORDER BY created"):  # noqa: S608
        try:
            to_run(row)
        except DamagedRecord:
            states = frozenset(RunState)
            column, value = ("spec", row[2]) if row[3] in states else ("state", row[3])
            yield Damage("runs", (row[0],), column, _as_text(value))


def _in_events(database: Database) -> Iterator[Damage]:
    sql = "SELECT run_id, seq, type, data FROM orchestrator_events ORDER BY run_id, seq"
    for rows in database.stream(sql, _BATCH):
        for run, seq, kind, data in rows:
            value = _read(data)
            if value is None or (
                DAMAGED not in value and is_known(kind) and isinstance(read_event(kind, value), UnknownEvent)
            ):
                yield Damage("events", (run, seq), "data", _as_text(data))


def _in_steps(database: Database) -> Iterator[Damage]:
    sql = "SELECT run_id, key, gen, state, phase, input, output FROM orchestrator_steps ORDER BY run_id, seq"
    states = frozenset(StepState)
    for rows in database.stream(sql, _BATCH):
        for run, key, gen, state, phase, given, output in rows:
            before, after = _read(given), _read(output)
            if state not in states:
                yield Damage("steps", (run, key, gen), "state", _as_text(state))
            if before is None:
                yield Damage("steps", (run, key, gen), "input", _as_text(given))
            if after is None or (DAMAGED not in after and not is_readable(phase, before or {}, after)):
                yield Damage("steps", (run, key, gen), "output", _as_text(output))


def _in_signals(database: Database) -> Iterator[Damage]:
    for run, number, payload in database.execute("SELECT run_id, id, payload FROM orchestrator_signals"):
        if payload is not None and _read(payload) is None:
            yield Damage("signals", (run, number), "payload", _as_text(payload))


def _read(text: Any) -> dict[str, Any] | None:
    """Return the object that a text stands for; None if it stands for none."""
    try:
        value = decode(text)
    except (ValueError, TypeError):
        return None
    return value if isinstance(value, dict) else None


def repair(database: Database, damage: Damage) -> str:
    """Replace a damaged record by what can be had of it, and say what that means."""
    value: object = encode({**salvage(damage.text), DAMAGED: True})
    said = f"{len(salvage(damage.text))} of its values could be read; it stays, marked as damaged"
    if damage.column == "state":
        value, said = "failed", "how it ended is not known, so it counts as failed"
    elif damage.table == "runs":
        value = encode(_options(database, damage))
        said = "what could be read, and what its first event says, is kept; look before you resume it"
    elif damage.table == "steps" and damage.column == "output" and _is_needed(database, damage):
        database.change(f"DELETE FROM orchestrator_steps WHERE {damage.where}", *damage.keys)  # noqa: S608
        return "its task is not done, so it is taken as not begun: the next `segue resume` repeats it"
    sql = f"UPDATE orchestrator_{damage.table} SET {damage.column} = ? WHERE {damage.where}"  # noqa: S608
    database.change(sql, value, *damage.keys)
    return said


def _options(database: Database, damage: Damage) -> dict[str, Any]:
    """Return a run's options: what can be read, and what its first event says."""
    sql = (
        "SELECT data FROM orchestrator_events WHERE run_id = ? AND type = 'run.started' ORDER BY seq LIMIT 1"
    )
    rows = database.execute(sql, damage.run)
    began = salvage(_as_text(rows[0][0])) if rows else {}
    least = dict.fromkeys(("source_kind", "source", "repo", "agent", "flow"), "")
    named = {name: began[name] for name in (*least, "model", "tasks") if name in began}
    known = [*named.items(), *salvage(damage.text).items()]
    return least | {name: value for name, value in known if _fits({**least, name: value})}


def _fits(options: dict[str, Any]) -> bool:
    try:
        convert(options, RunSpec)
    except ValidationError:
        return False
    return True


def _is_needed(database: Database, damage: Damage) -> bool:
    """Return whether a later session would read what the step said: its task is not done."""
    sql = "SELECT data FROM orchestrator_events WHERE run_id = ? AND type = 'task.ended'"
    ends = [salvage(_as_text(row[0])) for row in database.execute(sql, damage.run)]
    sql = f"SELECT task FROM orchestrator_steps WHERE {damage.where}"  # noqa: S608
    tasks = [row[0] for row in database.execute(sql, *damage.keys)]
    return not any(end.get("done") is True and end.get("task") in tasks for end in ends)


def mend_aside(copy: Database) -> None:
    """Repair a copy that only this process reads, and name what is damaged."""
    found = find_damage(copy)
    for one in found:
        tell_damaged(one.name)
    with copy.transaction():
        for one in found:
            repair(copy, one)


def repair_all(database: Database, found: list[Damage]) -> tuple[Path | None, list[str]]:
    """Repair what was found; return a copy of the file made before, and what each repair means."""
    copy = database.copy(".damaged")
    with database.transaction():
        return copy, [repair(database, one) for one in found]
