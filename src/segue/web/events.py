"""The events of all runs, with search and filters, paged by the number of the event."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from segue.domain.events import EVENTS, ErrorSeen, Recorded, read_event
from segue.domain.installed import event_names
from segue.domain.run import USUAL_RUNS
from segue.domain.text import plain
from segue.web.live import make_line
from segue.web.routes import Data, PageRequest, PageRoute

if TYPE_CHECKING:
    from segue.store.store import Store


SIZE = 50
"""Events on one page."""

_RUNS = 100
"""The newest runs of the usual kinds that can be chosen; any other can be given in the address."""

EVENT_ROWS = "SELECT run_id, seq, ts, step, type, data FROM orchestrator_events"
_BORING = ("token", "digest", "gen")
_PLACE = re.compile(r"([\w-]{1,64}):(\d{1,18})", re.ASCII)


def query_events(request: PageRequest) -> Data:
    """Return the events that match, newest first, and where the next page starts."""
    chosen = {name: request.text(name) for name in ("q", "type", "run", "task")}
    forward = _parse_place(request.text("after"))
    place = forward or _parse_place(request.text("before"))
    where, values = _build_conditions(chosen, place, later=forward is not None)
    order = "" if forward else " DESC"
    rows = read_events(request.store, where, values, f"run_id{order}, seq{order}", SIZE + 1)
    usual = request.store.runs(limit=_RUNS, kinds=USUAL_RUNS)
    runs = [{"id": run.id, "source": run.spec.source} for run in usual]
    more, found = len(rows) > SIZE, rows[:SIZE]
    if forward:
        found.reverse()
    return {
        "title": "Events",
        "events": [_make_event_line(row) for row in found],
        "older": _format_place(found[-1]) if found and (more or forward) else "",
        "newer": _format_place(found[0]) if found and place and (more or not forward) else "",
        "filters": chosen,
        "filtered": any(chosen.values()),
        "choices": {"type": [*EVENTS, *event_names()], "run": runs},
        "any": bool(found) or bool(request.store.query("SELECT 1 AS one FROM orchestrator_events LIMIT 1")),
    }


def _build_conditions(
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
        values += [f"task/{escape_like(chosen['task'])}/%", chosen["task"]]
    if chosen["q"]:
        text, value = match_text(chosen["q"])
        parts.append(text)
        values.append(value)
    if place:
        parts.append(f"(run_id, seq) {'>' if later else '<'} (?, ?)")
        values += place
    return " AND ".join(parts), values


def match_text(words: str) -> tuple[str, str]:
    """Return the condition for events with these words, whatever their case, and its argument."""
    # As encoded in JSON: quotes and line breaks have a backslash there.
    written = json.dumps(words, ensure_ascii=False)[1:-1]
    return "lower(CAST(data AS text)) LIKE lower(?) ESCAPE '!'", f"%{escape_like(written)}%"


def escape_like(text: str) -> str:
    """Return the text with a `!` before what LIKE would read as a pattern."""
    return re.sub("([!%_])", r"!\1", text)


def _parse_place(text: str) -> tuple[str, int] | None:
    found = _PLACE.fullmatch(text)
    return (found[1], int(found[2])) if found else None


def _format_place(recorded: Recorded) -> str:
    return f"{recorded.run}:{recorded.seq}"


def _make_event_line(recorded: Recorded) -> dict[str, Any]:
    line = make_line(recorded)
    where = {"run": recorded.run, "step": recorded.step}
    return {**where, **line, "text": line["text"] or _summarize(recorded)}


def read_events(store: Store, where: str, values: Sequence[object], order: str, limit: int) -> list[Recorded]:
    """Return the first events that fulfil a condition, in an order, both written in SQL."""
    sql = f"{EVENT_ROWS} WHERE {where} ORDER BY {order} LIMIT {limit}"
    return [
        Recorded(row["run_id"], row["seq"], row["ts"], row["step"], read_event(row["type"], row["data"]))
        for row in store.query(sql, values)
    ]


def _summarize(recorded: Recorded) -> str:
    """Summarize an event that has no description by its short values."""
    if isinstance(recorded.event, ErrorSeen):
        return plain(f"{recorded.event.kind} {recorded.event.message}", 200)
    data = recorded.data
    values = [
        f"{name} {_format_value(data[name])}"
        for name in data
        if name not in _BORING and _is_short(data[name])
    ]
    return plain(" · ".join(values), 200)


def _is_short(value: Any) -> bool:
    return isinstance(value, str | int | float) and value != ""


def _format_value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


PAGES = (PageRoute("/events", "events.html", "Events", query_events, menu="Runs"),)
