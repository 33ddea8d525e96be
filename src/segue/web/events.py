"""The page of events: everything that was observed, searched and filtered, a page at a time by number."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from segue.domain.event import EventType, Recorded
from segue.domain.plain import plain
from segue.ports import Store
from segue.web.live import line_of
from segue.web.pages import Asked, Data, Page

SIZE = 50
"""Events on one page."""

_RUNS = 100
"""The newest runs that can be chosen; any other by its address."""

_DULL = ("token", "digest", "gen")
_PLACE = re.compile(r"([\w-]{1,64}):(\d{1,18})", re.ASCII)


def events(asked: Asked) -> Data:
    """The events that fit, the newest first, and where the next ones begin."""
    chosen = {name: asked.text(name) for name in ("q", "type", "run", "task")}
    forward = _place(asked.text("after"))
    place = forward or _place(asked.text("before"))
    where, values = _conditions(chosen, place, later=forward is not None)
    order = "" if forward else " DESC"
    rows = asked.store.query(
        "SELECT run_id, seq, ts, step, type, data FROM orchestrator_events"  # noqa: S608
        f" WHERE {where} ORDER BY run_id{order}, seq{order} LIMIT {SIZE + 1}",
        values,
    )
    more, found = len(rows) > SIZE, rows[:SIZE]
    if forward:
        found.reverse()
    return {
        "title": "Events",
        "events": [_line(row) for row in found],
        "older": _mark(found[-1]) if found and (more or forward) else "",
        "newer": _mark(found[0]) if found and place and (more or not forward) else "",
        "filters": chosen,
        "filtered": any(chosen.values()),
        "choices": {"type": [str(kind) for kind in EventType], "run": _runs(asked.store)},
        "any": bool(found) or bool(asked.store.query("SELECT 1 AS one FROM orchestrator_events LIMIT 1")),
    }


def _conditions(
    chosen: Mapping[str, str], place: tuple[str, int] | None, later: bool
) -> tuple[str, list[object]]:
    parts: list[str] = ["true"]
    values: list[object] = []
    for name, column in (("run", "run_id"), ("type", "type")):
        if chosen[name]:
            parts.append(f"{column} = ?")
            values.append(chosen[name])
    if chosen["task"]:
        parts.append("(step LIKE ? ESCAPE '!' OR data->>'task' = ?)")
        values += [f"task/{_literal(chosen['task'])}/%", chosen["task"]]
    if chosen["q"]:
        # As it stands in the JSON: quotes and line ends are written with a backslash there.
        written = json.dumps(chosen["q"], ensure_ascii=False)[1:-1]
        parts.append("lower(CAST(data AS text)) LIKE lower(?) ESCAPE '!'")
        values.append(f"%{_literal(written)}%")
    if place:
        parts.append(f"(run_id, seq) {'>' if later else '<'} (?, ?)")
        values += place
    return " AND ".join(parts), values


def _literal(text: str) -> str:
    return re.sub("([!%_])", r"!\1", text)


def _place(text: str) -> tuple[str, int] | None:
    found = _PLACE.fullmatch(text)
    return (found[1], int(found[2])) if found else None


def _mark(row: Mapping[str, Any]) -> str:
    return f"{row['run_id']}:{row['seq']}"


def _line(row: Mapping[str, Any]) -> dict[str, Any]:
    recorded = Recorded(row["run_id"], row["seq"], row["ts"], row["step"], row["type"], row["data"])
    line = line_of(recorded)
    return {"run": row["run_id"], "step": row["step"], **line, "text": line["text"] or _brief(row["data"])}


def _brief(data: Any) -> str:
    """What an event says that has no sentence of its own: its short values."""
    if not isinstance(data, Mapping):
        return ""
    if isinstance(data.get("message"), str):
        return plain(f"{data.get('kind', '')} {data['message']}", 200)
    told = [f"{name} {_short(data[name])}" for name in data if name not in _DULL and _is_short(data[name])]
    return plain(" · ".join(told), 200)


def _is_short(value: Any) -> bool:
    return isinstance(value, str | int | float) and value != ""


def _short(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _runs(store: Store) -> list[dict[str, str]]:
    return [{"id": run.id, "source": run.spec.source} for run in store.runs(limit=_RUNS)]


PAGES = (Page("/events", "events.html", "Events", events, menu=True),)
