"""The commands of one step: what its agent ran, and the checks and diagnostics that Segue ran."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from segue.domain.events import CheckRun, DiagnosticRun
from segue.store.rows import CHATTY
from segue.web.events import read_events
from segue.web.routes import Data

if TYPE_CHECKING:
    from segue.store.store import Store


COMMANDS = 200
"""Commands shown; the events contain all of them."""

# `seq + 0`: an index leads to the calls of a step, and their order must not lead past it.
_CALLS = """SELECT seq, ts, data->>'id' AS id, data->'input'->>'command' AS command,
 data->>'status' AS status, data->'result' AS result FROM orchestrator_events
 WHERE type = 'agent.tool' AND coalesce(data->>'state', '') <> 'started' AND run_id = ? AND step = ?
 AND data->>'name' = 'Bash' AND seq >= ? AND seq <= ? ORDER BY seq + 0 LIMIT ?"""
_BEGUN = """SELECT ts, data->>'id' AS id FROM orchestrator_events
 WHERE type = 'agent.tool' AND data->>'state' = 'started' AND run_id = ? AND step = ?
 AND seq >= ? AND seq <= ? ORDER BY seq"""
_OURS = "run_id = ? AND step = ? AND seq >= ? AND seq <= ?"
_OURS += " AND (type = 'check' OR type = 'diagnostic')" + "".join(f" AND type <> '{n}'" for n in CHATTY)


def list_commands(store: Store, step: Mapping[str, Any], end: int) -> Data:
    """Return the commands of a step that ends with this event, the first ones if there are many."""
    place = [step["run_id"], step["key"], step["seq"], end]
    calls = store.query(_CALLS, [*place, COMMANDS + 1])
    last = calls[-1]["seq"] if calls else step["seq"]
    begun = {row["id"]: row["ts"] for row in store.query(_BEGUN, [*place[:3], last])} if calls else {}
    agents = [_describe_call(row, begun.get(row["id"])) for row in calls]
    ours = [
        _describe_ours(one.seq, one.event)
        for one in read_events(store, _OURS, place, "seq", COMMANDS + 1)
        if isinstance(one.event, CheckRun | DiagnosticRun)
    ]
    found = sorted([*agents, *ours], key=lambda one: one["seq"])
    return {"commands": found[:COMMANDS], "more_commands": len(found) > COMMANDS}


def _describe_call(row: Mapping[str, Any], began: int | None) -> dict[str, Any]:
    result = _read_result(row["result"])
    code = result.get("exit_code", result.get("exitCode"))
    return {
        **{"seq": row["seq"], "origin": "agent", "command": row["command"], "status": row["status"]},
        "exit_code": code if isinstance(code, int) else None,
        "seconds": None if began is None else (row["ts"] - began) / 1000,
    }


def _read_result(result: Any) -> Mapping[str, Any]:
    """Return the result of a tool if it has fields; SQLite returns JSON as text."""
    if isinstance(result, str):
        try:
            result = json.loads(result)
        except ValueError:
            return {}
    return result if isinstance(result, Mapping) else {}


def _describe_ours(seq: int, event: CheckRun | DiagnosticRun) -> dict[str, Any]:
    refused = isinstance(event, DiagnosticRun) and not event.allowed
    return {
        **{"seq": seq, "origin": event.type, "command": event.command},
        "status": "refused" if refused else None,
        "exit_code": event.exit_code,
        "seconds": event.seconds,
    }
