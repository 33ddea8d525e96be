"""One step, opened: prompt, events, commands, diff, checks, and the verdict with its evidence."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from segue.domain.event import Recorded
from segue.domain.run import Run
from segue.ports import Store
from segue.web import queries as facts
from segue.web.diffs import commits_of, diff_text, highlighted
from segue.web.live import line_of
from segue.web.pages import Asked, Data, Missing, Page
from segue.web.texts import piece

EVENTS = 100
"""Events on one page."""

COMMANDS = 200
"""Commands that are shown; all of them are among the events."""

_EVENT = "SELECT run_id, seq, ts, step, type, data FROM orchestrator_events WHERE run_id = ?"
_VERDICT = {"result": "", "action": "", "reason": "", "request": "", "criteria": [], "caveats": []}
_OUTPUT = ("exit_code", "session", "files", "branch", "duration", "usage", "caveats", "changed")


def step_page(asked: Asked) -> Data:
    """Everything about one step; long texts are cut, and say how long they are."""
    store = asked.store
    run, step = _found(asked)
    known = texts(store, run, step)
    names = ("seq", "key", "gen", "task", "phase", "attempt", "agent", "model", "state", "started", "ended")
    output = step["output"]
    return {
        "title": f"{step['phase']} {step['attempt']}" + (f" of task {step['task']}" if step["task"] else ""),
        "run": {"id": run.id, "source": run.spec.source},
        "step": {name: step[name] for name in names},
        "self": f"/runs/{run.id}/steps/{step['seq']}",
        "paged": "after" in asked.query,
        "seconds": (step["ended"] - step["started"]) / 1000 if step["ended"] else None,
        "verdict": _whole(output.get("verdict"), _VERDICT),
        "failure": _whole(output.get("failure"), {"kind": "failed", "message": ""}),
        "output": {name: output[name] for name in _OUTPUT if output.get(name) not in (None, "", [], {})},
        "texts": {name: piece(text) for name, text in known.items() if "diff" not in name},
        "checks": _checks(output),
        **_commands(store, step),
        **_diff(known),
        **_events(store, step, asked.number("after", step["seq"] - 1)),
    }


def text_page(asked: Asked) -> Data:
    """One long text of a step, a piece at a time."""
    run, step = _found(asked)
    found = texts(asked.store, run, step).get(asked.path["name"])
    if found is None:
        raise Missing("The step has no such text.", hint=f"See /runs/{run.id}/steps/{step['seq']}")
    part = piece(found, asked.number("from"))
    return {
        "title": asked.path["name"],
        "run": run.id,
        "seq": step["seq"],
        "name": asked.path["name"],
        **part,
    }


def event_page(asked: Asked) -> Data:
    """One event with all it says."""
    run = facts.run_of(asked.store, asked.path["run"])
    rows = asked.store.query(f"{_EVENT} AND seq = ?", [run.id, _number(asked.path["seq"])])
    if not rows:
        raise Missing("There is no such event.", hint=f"See /runs/{run.id}")
    [row] = rows
    shown = piece(json.dumps(row["data"], indent=2, ensure_ascii=False), asked.number("from"))
    return {"title": f"{row['type']} {row['seq']}", "event": row, "shown": shown}


def texts(store: Store, run: Run, step: Mapping[str, Any]) -> dict[str, str]:
    """The long texts of a step by name."""
    output = step["output"]
    found = {"prompt": _prompt(store, step), "answer": str(output.get("text") or "")}
    for number, check in enumerate(output.get("checks") or ()):
        found[f"check-{number + 1}"] = str(check.get("output") or "")
    commits = commits_of(store, step)
    if commits:
        found["diff"], why = diff_text(run, *commits)
        found["no-diff"] = why
    return {name: text for name, text in found.items() if text}


def _whole(told: Any, usual: dict[str, Any]) -> dict[str, Any] | None:
    """What a step says, with everything that it leaves out: it may be of another version."""
    if not isinstance(told, dict):
        return None
    found = {**usual, **told}
    if "criteria" in found:
        found["criteria"] = [{"key": "", "met": False, "evidence": "", **one} for one in found["criteria"]]
    return found


def _found(asked: Asked) -> tuple[Run, dict[str, Any]]:
    run = facts.run_of(asked.store, asked.path["run"])
    return run, facts.step_of(asked.store, run.id, _number(asked.path["seq"]))


def _number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise Missing("There is nothing at this address.", hint="The menu leads to all pages.")
    return int(text)


def _prompt(store: Store, step: Mapping[str, Any]) -> str:
    rows = store.query(
        "SELECT p.text FROM orchestrator_events e JOIN orchestrator_prompts p ON p.digest = e.data->>'digest'"
        " WHERE e.run_id = ? AND e.seq >= ? AND e.seq < ? AND e.step = ? AND e.type = 'prompt'"
        " ORDER BY e.seq LIMIT 1",
        [step["run_id"], step["seq"], step["seq"] + 50, step["key"]],
    )
    return str(rows[0]["text"]) if rows else ""


def _checks(output: Mapping[str, Any]) -> list[dict[str, Any]]:
    found = enumerate(output.get("checks") or ())
    return [
        {"name": f"check-{number + 1}", "command": check.get("command"), "exit_code": check.get("exit_code")}
        for number, check in found
    ]


def _commands(store: Store, step: Mapping[str, Any]) -> Data:
    found = store.query(
        "SELECT seq, origin, command, status, exit_code, seconds FROM orchestrator_commands"
        " WHERE run_id = ? AND step = ? ORDER BY seq LIMIT ?",
        [step["run_id"], step["key"], COMMANDS + 1],
    )
    return {"commands": found[:COMMANDS], "more_commands": len(found) > COMMANDS}


def _diff(known: dict[str, str]) -> Data:
    part = piece(known.get("diff", ""))
    why = known.get("no-diff", "")
    return {
        "no_diff": why,
        "diff": {**part, "text": "", "files": highlighted(part["text"])} if part["total"] else None,
    }


def _events(store: Store, step: Mapping[str, Any], after: int) -> Data:
    """A page of the step's events; those of a later try under the same name are not its own."""
    [row] = store.query(
        "SELECT min(seq) AS next FROM orchestrator_steps WHERE run_id = ? AND key = ? AND seq > ?",
        [step["run_id"], step["key"], step["seq"]],
    )
    end = row["next"] if row["next"] is not None else 2**62
    rows = store.query(
        f"{_EVENT} AND seq > ? AND seq < ? AND step = ? ORDER BY seq LIMIT ?",
        [step["run_id"], max(after, step["seq"] - 1), end, step["key"], EVENTS + 1],
    )
    shown = [_line(Recorded(**{"run": found.pop("run_id"), **found})) for found in rows[:EVENTS]]
    return {"events": shown, "more": shown[-1]["seq"] if len(rows) > EVENTS else None, "after": after}


def _line(event: Recorded) -> dict[str, Any]:
    line = line_of(event)
    if not line["text"]:
        line["text"] = json.dumps(event.data, ensure_ascii=False)[:300]
    return line


_STEP = "/runs/{run}/steps/{seq}"
PAGES = (
    Page(_STEP, "step.html", "Step", step_page, section="/runs"),
    Page(_STEP + "/{name}", "text.html", "Text", text_page, section="/runs"),
    Page("/runs/{run}/events/{seq}", "event.html", "Event", event_page, section="/runs"),
)
