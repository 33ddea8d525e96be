"""The page of one step: prompt, events, commands, diff, checks, and the verdict with its evidence."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import to_builtins

from segue.domain.events import CheckRun, DiagnosticRun, Recorded
from segue.domain.outcome import Failure, Usage
from segue.domain.proof import CheckResult
from segue.domain.results import Output, to_json
from segue.domain.run import Run
from segue.domain.verdict import Result, Verdict
from segue.runtime.sources import read_tasks
from segue.store.rows import CHATTY
from segue.web import queries
from segue.web.diffs import find_commits, read_diff, read_patch, split_by_file
from segue.web.live import make_line
from segue.web.queries import EVENT_ROWS, read_events
from segue.web.routes import Data, NotFound, PageRequest, PageRoute
from segue.web.timeline import label_phase

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


TEXT = 40_000
"""Characters of a long text on one page."""

EVENTS = 100
"""Events on one page."""

_FACTS = ("exit_code", "session", "files", "branch", "duration", "usage", "changed")


class StepOutput(Output, frozen=True):
    """What the page shows of the output of any step."""

    verdict: Verdict | None = None
    failure: Failure | str | None = None
    checks: tuple[CheckResult, ...] = ()
    text: str = ""
    exit_code: int | None = None
    session: str | None = None
    files: tuple[str, ...] = ()
    branch: str = ""
    duration: float = 0.0
    usage: Usage | None = None
    changed: bool = False

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> StepOutput:
        """Read what can be read: it may come from another version."""
        known: dict[str, Any] = {}
        for field in msgspec.structs.fields(cls):
            if field.encode_name in stored:
                with contextlib.suppress(msgspec.ValidationError):
                    known[field.name] = msgspec.convert(stored[field.encode_name], field.type)
        return cls(**known)


def query_step(request: PageRequest) -> Data:
    """Return everything about one step; long texts are cut, with their full length."""
    store = request.store
    run, step = find_step(request)
    known = read_texts(request, run, step)
    names = ("seq", "key", "gen", "task", "phase", "attempt", "agent", "model", "state", "started", "ended")
    output = StepOutput.read(step["output"])
    facts = {name: value for name, value in to_json(output).items() if name in _FACTS and value != []}
    end = queries.find_end(store, step)
    return {
        "title": _name(step),
        "run": queries.describe_place(run),
        "step": {name: step[name] for name in names},
        "self": f"/runs/{run.id}/steps/{step['seq']}",
        "paged": "after" in request.query,
        "seconds": (step["ended"] - step["started"]) / 1000 if step["ended"] else None,
        "verdict": _describe_verdict(request, run, step["task"], output.verdict),
        "failure": _describe_failure(output.failure),
        "output": facts,
        "texts": {name: cut_piece(text) for name, text in known.items() if "diff" not in name},
        "checks": [
            {"name": f"check-{number}", "command": check.command, "exit_code": check.exit_code}
            for number, check in enumerate(output.checks, 1)
        ],
        **list_commands(store, step, end),
        **_show_diff(known),
        **_list_events(store, step, request.number("after", step["seq"] - 1), end),
    }


def name_step(request: PageRequest) -> str:
    """Name the step that is asked for; raises NotFound."""
    return _name(find_step(request)[1])


def _name(step: Mapping[str, Any]) -> str:
    of = f" of task {step['task']}" if step["task"] else ""
    return f"{label_phase(step['phase'] or '')} {step['attempt']}{of}"


def query_text(request: PageRequest) -> Data:
    """Return one long text of a step, a piece at a time."""
    run, step = find_step(request)
    found = read_texts(request, run, step).get(request.path["name"])
    if found is None:
        raise NotFound("The step has no such text.", hint=f"See /runs/{run.id}/steps/{step['seq']}")
    part = cut_piece(found, request.number("from"))
    return {
        "title": request.path["name"],
        "run": run.id,
        "seq": step["seq"],
        "name": request.path["name"],
        **part,
    }


def query_event(request: PageRequest) -> Data:
    """Return one event with all its data."""
    run = queries.get_run(request.store, request.path["run"])
    place = [run.id, _parse_number(request.path["seq"])]
    rows = request.store.query(f"{EVENT_ROWS} WHERE run_id = ? AND seq = ?", place)
    if not rows:
        raise NotFound("There is no such event.", hint=f"See /runs/{run.id}")
    [row] = rows
    shown = cut_piece(json.dumps(row["data"], indent=2, ensure_ascii=False), request.number("from"))
    return {"title": f"{row['type']} {row['seq']}", "event": row, "shown": shown}


def read_texts(request: PageRequest, run: Run, step: Mapping[str, Any]) -> dict[str, str]:
    """Read the long texts of a step, by name."""
    store = request.store
    output = StepOutput.read(step["output"])
    found = {"prompt": _read_prompt(store, step), "answer": output.text}
    for number, check in enumerate(output.checks, 1):
        found[f"check-{number}"] = check.output
    commits = find_commits(store, step)
    if commits:
        found["diff"], why = read_diff(run, *commits)
        found["no-diff"] = why
    elif step["task"] and (patch := read_patch(store, run.id, step["task"], step["key"])):
        found["diff"] = patch.diff
    return {name: text for name, text in found.items() if text}


def cut_piece(text: str, begin: int = 0, size: int = TEXT) -> Data:
    """Cut a piece out of a text, and say where it ends: after a line, if one ends nearby."""
    begin = min(begin, len(text))
    end = min(len(text), begin + size)
    if end < len(text):
        line = text.rfind("\n", begin + size // 2, end)
        end = line + 1 if line > 0 else end
    return {"text": text[begin:end], "begin": begin, "end": end, "total": len(text)}


def _describe_verdict(
    request: PageRequest, run: Run, task: str | None, verdict: Verdict | None
) -> dict[str, Any] | None:
    """Describe a verdict; each criterion with its sentence, as the source has it now.

    A launch that ended well has judged nothing: there is no verdict to show.
    """
    if verdict is None or (verdict.result is Result.PASS and not verdict.criteria):
        return None
    listed = read_tasks(request.app, run)[0] if verdict.criteria and task else []
    texts = {one.key: one.text for found in listed if found.key == task for one in found.criteria}
    criteria = [{**to_builtins(one), "text": texts.get(one.key, "")} for one in verdict.criteria]
    return {**to_builtins(verdict), "criteria": criteria}


def _describe_failure(failure: Failure | str | None) -> dict[str, Any] | None:
    if isinstance(failure, str):
        return {"kind": "failed", "message": failure} if failure else None
    return to_builtins(failure) if failure is not None else None


def find_step(request: PageRequest) -> tuple[Run, dict[str, Any]]:
    """Find the run and the step that an address names."""
    run = queries.get_run(request.store, request.path["run"])
    return run, queries.get_step(request.store, run.id, _parse_number(request.path["seq"]))


def _parse_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise NotFound("There is nothing at this address.", hint="The menu leads to all pages.")
    return int(text)


def _read_prompt(store: Store, step: Mapping[str, Any]) -> str:
    rows = store.query(
        "SELECT p.text FROM orchestrator_events e JOIN orchestrator_prompts p ON p.digest = e.data->>'digest'"
        " WHERE e.run_id = ? AND e.seq >= ? AND e.step = ? AND e.type = 'prompt'"
        " ORDER BY e.seq LIMIT 1",
        [step["run_id"], step["seq"], step["key"]],
    )
    return str(rows[0]["text"]) if rows else ""


def _show_diff(known: dict[str, str]) -> Data:
    part = cut_piece(known.get("diff", ""))
    why = known.get("no-diff", "")
    return {
        "no_diff": why,
        "diff": {**part, "text": "", "files": split_by_file(part["text"])} if part["total"] else None,
    }


def _list_events(store: Store, step: Mapping[str, Any], after: int, end: int) -> Data:
    """Return a page of the events of the step."""
    place = [step["run_id"], max(after, step["seq"] - 1), end, step["key"]]
    where = "run_id = ? AND seq > ? AND seq <= ? AND step = ?"
    found = read_events(store, where, place, "seq", EVENTS + 1)
    shown = [_make_event_line(event) for event in found[:EVENTS]]
    return {"events": shown, "more": shown[-1]["seq"] if len(found) > EVENTS else None, "after": after}


def _make_event_line(event: Recorded) -> dict[str, Any]:
    line = make_line(event)
    if not line["text"]:
        line["text"] = json.dumps(event.data, ensure_ascii=False)[:300]
    return line


_STEP = "/runs/{run}/steps/{seq}"
PAGES = (
    PageRoute(_STEP, "step.html", "Step", query_step, section="/runs", slow=True, name=name_step),
    PageRoute(_STEP + "/{name}", "text.html", "Text", query_text, section="/runs"),
    PageRoute("/runs/{run}/events/{seq}", "event.html", "Event", query_event, section="/runs"),
)
