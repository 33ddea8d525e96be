"""Records whose JSON was damaged: read as far as they go, found, and repaired.

Only SQLite can hold them; Postgres checks what it stores. A text that was cut still has the pairs before the
cut, so one damaged record costs one record.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from msgspec import Struct

from segue.domain.errors import StoreError
from segue.domain.log import Log
from segue.store.database import Database
from segue.store.encoding import DAMAGED, encode

_LOG = Log("store")
_named: set[str] = set()
_SPACE = " \t\r\n"
_PLACES = {
    "runs": ("id", "''", ("spec",)),
    "events": ("run_id", "seq", ("data",)),
    "steps": ("run_id", "key", ("input", "output")),
    "signals": ("run_id", "id", ("payload",)),
}
"""For each table: the column with the run, the one that tells its rows apart, and those with JSON."""


class DamagedRecord(StoreError):
    """A record that is needed whole cannot be read."""


class Damage(Struct, frozen=True):
    """One damaged record."""

    table: str
    run: str
    key: str
    """The number of an event, the key of a step, the id of a message; empty for a run."""
    column: str
    rowid: int
    text: str

    @property
    def name(self) -> str:
        """The record as people call it."""
        kind = {"events": "event", "steps": "step", "signals": "message"}.get(self.table, "")
        return f"{kind} {self.key} of run {self.run}" if kind else f"the options of run {self.run}"


def read_damaged(text: str, name: str) -> dict[str, Any]:
    """Return what can be read of a damaged record, and DAMAGED; tell its name, once."""
    if name not in _named:
        _named.add(name)
        _LOG.tell(f"The record of {name} is damaged. What can be had: segue db repair")
    return {**salvage(text), DAMAGED: True}


def refuse_damaged(name: str) -> DamagedRecord:
    """Return the error for a record that is needed, where defaults for what was lost could do harm."""
    return DamagedRecord(
        f"The record of {name} is damaged.",
        kept="Everything else that was recorded.",
        hint="See what can be had: segue db repair",
    )


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
    except (ValueError, IndexError, TypeError):
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
    """Return every damaged record of an SQLite database."""
    found = []
    for table, (run, key, columns) in _PLACES.items():
        for column in columns:
            sql = (
                f"SELECT {run}, {key}, rowid, {column} FROM orchestrator_{table}"  # noqa: S608
                f" WHERE {column} IS NOT NULL AND NOT json_valid({column}) ORDER BY rowid"
            )
            found += [
                Damage(table, str(row[0]), str(row[1]), column, row[2], str(row[3]))
                for row in database.execute(sql)
            ]
    return found


def repair(database: Database, damage: Damage) -> str:
    """Replace a damaged record by what can be had of it, and say what that means."""
    value = {**salvage(damage.text), DAMAGED: True}
    said = f"{len(value) - 1} of its values could be read; it stays, marked as damaged"
    if damage.table == "runs":
        value, said = _options(database, damage)
    elif damage.table == "steps" and damage.column == "output" and _is_needed(database, damage):
        database.change("DELETE FROM orchestrator_steps WHERE rowid = ?", damage.rowid)
        return "its task is not done, so it is taken as not begun: the next `segue resume` repeats it"
    sql = f"UPDATE orchestrator_{damage.table} SET {damage.column} = ? WHERE rowid = ?"  # noqa: S608
    database.change(sql, encode(value), damage.rowid)
    return said


def _options(database: Database, damage: Damage) -> tuple[dict[str, Any], str]:
    """Return a run's options: what can be read, and what its first event says."""
    sql = (
        "SELECT data FROM orchestrator_events WHERE run_id = ? AND type = 'run.started' ORDER BY seq LIMIT 1"
    )
    rows = database.execute(sql, damage.run)
    began = salvage(rows[0][0]) if rows else {}
    value = dict.fromkeys(("source_kind", "source", "repo", "agent", "flow"), "")
    value |= {name: began[name] for name in (*value, "model", "tasks") if name in began}
    value |= salvage(damage.text)
    return value, "what could be read, and what its first event says, is kept; look before you resume it"


def _is_needed(database: Database, damage: Damage) -> bool:
    """Return whether a later session would read what the step said: its task has not ended."""
    sql = (
        "SELECT 1 FROM orchestrator_events e JOIN orchestrator_steps s ON s.run_id = e.run_id"
        " WHERE s.rowid = ? AND e.type = 'task.ended' AND json_valid(e.data)"
        " AND json_extract(e.data, '$.task') = s.task"
    )
    return not database.execute(sql, damage.rowid)


def repair_all(database: Database, found: list[Damage]) -> tuple[Path | None, list[str]]:
    """Repair what was found; return a copy of the file made before, and what each repair means."""
    copy = database.copy(".damaged")
    with database.transaction():
        return copy, [repair(database, one) for one in found]
