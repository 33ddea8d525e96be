"""The conversation with an agent, of one launch or of all for a task: searched, filtered and paged."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct, field

from segue.domain import events as e
from segue.domain.results import to_json
from segue.domain.run import Run
from segue.domain.text import clean, plain
from segue.reports.event_text import pick_input
from segue.web import queries
from segue.web.diffs import number_lines, split_by_file
from segue.web.live import make_line
from segue.web.queries import match_text, read_events
from segue.web.routes import Data, NotFound, PageRequest, PageRoute
from segue.web.step import find_step
from segue.web.tasks import find_task
from segue.web.timeline import label_phase

_BAD = frozenset({"error", "failure", "failed", "rejected", "denied"})
_OLD = ("old_string", "oldString", "old_str", "oldText")
_NEW = ("new_string", "newString", "new_str", "newText", "content", "contents", "file_text")
_PATH = ("file_path", "path", "filePath", "notebook_path")
_SHOWN_OTHERWISE = (
    *(e.AgentTool, e.PromptSent, e.AgentUsage, e.PatchMade),
    *(e.AgentRaw, e.StepStarted, e.StepEnded, e.AgentStarted),
)
_SILENT = "The agent does not say what."
_MOST_DIFF = 40_000
_MOST_LINES = 400
"""Lines of one edit that are shown; the event has all."""


class ShownTool(Struct, kw_only=True):
    """One use of a tool: what it was given and what came back."""

    seq: int
    name: str
    about: str = ""
    """The most telling part of what it was given, in one line."""
    input: str = ""
    result: str = ""
    status: str = ""
    exit_code: int | None = None
    is_bad: bool = False
    is_open: bool = False
    """Its end was not reported yet."""
    seconds: float | None = None
    files: list[dict[str, Any]] = field(default_factory=list)
    """What it changes, as lines of a diff."""


class TurnPart(Struct, kw_only=True):
    """One part of a turn: a thought, words, a tool, or something that happened around it."""

    kind: str
    """`thought`, `text`, `tool`, `output`, `error`, `patch` or `note`."""
    seq: int
    text: str = ""
    tool: ShownTool | None = None
    files: list[dict[str, Any]] = field(default_factory=list)


class ConversationTurn(Struct, kw_only=True):
    """What an agent did from one utterance to the next."""

    seq: int
    ts: int
    step: str
    begins_step: bool = False
    last: int = 0
    """The number of its last event."""
    prompt: int = 0
    """How many characters the prompt has that began the launch; 0: it began before."""
    parts: list[TurnPart] = field(default_factory=list)
    usage: dict[str, Any] | None = None
    """What was used until here, where the agent says so."""


class TurnReader:
    """Sorts the events of a conversation into turns, in order."""

    def __init__(self) -> None:
        self.turns: list[ConversationTurn] = []
        self._tools: dict[tuple[str, str], tuple[ShownTool, int]] = {}

    def read(self, events: Iterable[e.Recorded]) -> list[ConversationTurn]:
        """Return the turns of these events."""
        for event in events:
            self._take(event)
        return [turn for turn in self.turns if turn.parts or turn.prompt or turn.usage]

    def _take(self, at: e.Recorded) -> None:
        turn = self._turn(at)
        turn.last = at.seq
        match at.event:
            case e.AgentTool():
                self._use(turn, at, at.event)
            case e.PromptSent(length=length):
                turn.prompt = length
            case e.AgentUsage():
                turn.usage = {name: value for name, value in at.data.items() if value is not None}
            case e.AgentEnded(usage=usage) if usage is not None:
                turn.usage = to_json(usage)
            case e.PatchMade(diff=diff, files=count) if diff:
                files = split_by_file(diff[:_MOST_DIFF])
                turn.parts.append(TurnPart(kind="patch", seq=at.seq, text=str(count), files=files))
        kind, text = _find_words(at)
        if text:
            self._say(turn, at.seq, kind, text)

    def _turn(self, at: e.Recorded) -> ConversationTurn:
        """Return the turn an event belongs to; words after work begin another one."""
        last, step = self.turns[-1] if self.turns else None, at.step or ""
        if last is None or last.step != step:
            began = ConversationTurn(seq=at.seq, ts=at.ts, step=step, begins_step=True)
        elif isinstance(at.event, e.AgentText | e.AgentThought) and _has_worked(last):
            began = ConversationTurn(seq=at.seq, ts=at.ts, step=step)
        else:
            return last
        self.turns.append(began)
        return began

    def _say(self, turn: ConversationTurn, seq: int, kind: str, text: str) -> None:
        words = clean(text).strip("\n")
        same = turn.parts[-1] if turn.parts else None
        if kind in ("text", "output") and same is not None and same.kind == kind:
            same.text += f"\n{words}"  # a long answer comes in pieces
        else:
            turn.parts.append(TurnPart(kind=kind, seq=seq, text=words))

    def _use(self, turn: ConversationTurn, at: e.Recorded, event: e.AgentTool) -> None:
        name = (turn.step, event.id)
        if event.id and event.state != "started" and name in self._tools:
            tool, began = self._tools.pop(name)
            tool.seconds = (at.ts - began) / 1000
        else:
            tool = ShownTool(seq=at.seq, name=event.name)
            turn.parts.append(TurnPart(kind="tool", seq=at.seq, tool=tool))
            if event.id and event.state == "started":
                self._tools[name] = tool, at.ts
        _fill(tool, event, at.seq)


def _find_words(at: e.Recorded) -> tuple[str, str]:
    """Return what an event says, and as what; nothing of those that are shown otherwise or not at all."""
    match at.event:
        case e.AgentThought(text=text):
            return "thought", text or _SILENT
        case e.AgentText(text=text):
            return "text", text
        case e.AgentOutput(text=text):
            return "output", text
        case e.AgentEnded(failure=failure):
            return "error", f"{failure.kind}: {failure.message}" if failure else ""
        case e.ErrorSeen(kind=kind, message=message):
            return "error", f"{kind}: {message}"
        case event if isinstance(event, _SHOWN_OTHERWISE):
            return "", ""
    return "note", str(make_line(at)["text"])


def _has_worked(turn: ConversationTurn) -> bool:
    said = any(part.kind == "text" for part in turn.parts)
    return any(part.kind == "tool" for part in turn.parts) or (said and turn.usage is not None)


def _fill(tool: ShownTool, event: e.AgentTool, seq: int) -> None:
    tool.seq = seq
    given = event.input if event.input is not None else {}
    tool.about = plain(clean(str(pick_input(given) or "")), 160) if given else tool.about
    shown = _show(given) if given else tool.input
    tool.input = "" if shown == tool.about else shown
    tool.files = list_edits(given) or tool.files
    tool.is_open = event.state == "started"
    tool.status = event.status
    tool.result = _show_result(event.result)
    result = event.result if isinstance(event.result, Mapping) else {}
    code = result.get("exit_code", result.get("exitCode"))
    tool.exit_code = code if isinstance(code, int) else None
    tool.is_bad = event.status.lower() in _BAD or bool(tool.exit_code)


def _show(value: Any) -> str:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping) and len(value) == 1 and isinstance(only := next(iter(value.values())), str):
        return clean(only)
    return clean(json.dumps(value, indent=2, ensure_ascii=False))


def _show_result(result: Any) -> str:
    """Return what a tool gave back: its output where it has one, else everything."""
    if result is None:
        return ""
    if isinstance(result, Mapping):
        said = [str(result[name]) for name in ("stdout", "stderr", "output", "text") if result.get(name)]
        if said:
            return clean("\n".join(said))
    return _show(result)


def list_edits(given: Any) -> list[dict[str, Any]]:
    """Return what a tool was asked to change, as lines of a diff by file; nothing if it changes nothing."""
    if not isinstance(given, Mapping):
        return []
    patch = next((given[name] for name in ("patch", "diff") if isinstance(given.get(name), str)), "")
    if patch:
        return [{"path": _first(given, _PATH), "lines": _mark(patch.split("\n"))}]
    parts = given.get("edits") or given.get("changes")
    pieces = [one for one in parts if isinstance(one, Mapping)] if isinstance(parts, list) else [given]
    found = [_edit(piece, _first(given, _PATH)) for piece in pieces]
    return [one for one in found if one]


def _edit(given: Mapping[str, Any], path: str) -> dict[str, Any]:
    if isinstance(given.get("diff"), str):
        return {"path": _first(given, _PATH) or path, "lines": _mark(given["diff"].split("\n"))}
    old, new = _first(given, _OLD), _first(given, _NEW)
    where = _first(given, _PATH) or path
    if not where or not (old or new):
        return {}
    lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), n=2, lineterm=""))[2:]
    return {"path": where, "lines": _mark([line for line in lines if not line.startswith("@@")])}


def _first(given: Mapping[str, Any], names: Iterable[str]) -> str:
    return next((given[name] for name in names if isinstance(given.get(name), str)), "")


def _mark(lines: list[str]) -> list[dict[str, Any]]:
    return list(number_lines([clean(line) for line in lines[:_MOST_LINES]]))


SIZE = 150
"""Events on one page."""

SHOW = {
    "words": "type IN ('agent.text', 'agent.thought', 'prompt')",
    "tools": "type = 'agent.tool'",
    "errors": "(type = 'error' OR (type = 'agent.ended' AND data->'failure' IS NOT NULL)"
    " OR (type = 'agent.tool'"
    " AND lower(data->>'status') IN ('error', 'failure', 'failed', 'rejected', 'denied')))",
}
"""What can be shown alone."""


def query_step_talk(request: PageRequest) -> Data:
    """Return the conversation of one launch."""
    run, step = find_step(request)
    last = queries.find_end(request.store, step)
    found = _read(request, run, ("step = ?", [step["key"]]), step["seq"], last)
    name = f"{label_phase(step['phase'] or '')} {step['attempt']}"
    return {
        "title": f"Conversation: {name}" + (f" of task {step['task']}" if step["task"] else ""),
        "run": queries.describe_place(run),
        "task": step["task"],
        "steps": {
            step["key"]: queries.describe_step({**step, "result": None, "action": None, "reason": None})
        },
        "self": f"/runs/{run.id}/steps/{step['seq']}/conversation",
        **found,
    }


def query_task_talk(request: PageRequest) -> Data:
    """Return the conversations of all launches for one task, one after the other."""
    run, view, key = find_task(request)
    steps = queries.list_steps(request.store, run.id, [key])
    if not steps:
        raise NotFound(f"Nothing was said about task {key[:60]} yet.", hint=f"See /runs/{run.id}")
    names = sorted({str(step["key"]) for step in steps})
    marks = ", ".join("?" * len(names))
    found = _read(
        request,
        run,
        (f"step IN ({marks})", list(names)),
        steps[0]["seq"],
        queries.find_end(request.store, {**steps[-1], "run_id": run.id}),
    )
    return {
        "title": f"Conversation: {view.tasks[key].title}",
        "run": queries.describe_place(run),
        "task": key,
        "steps": {str(step["key"]): queries.describe_step(step) for step in steps},
        "self": f"/runs/{run.id}/tasks/{key}/conversation",
        **found,
    }


def _read(
    request: PageRequest, run: Run, place: tuple[str, list[object]], first: int, last: int
) -> dict[str, Any]:
    """Return a page of turns: from the start, or from where the address says."""
    chosen = {name: request.text(name) for name in ("q", "show")}
    after, before = request.number("after"), request.number("before")
    backward = bool(before) or bool(request.text("end"))
    low, high = max(first, after + 1), min(last, before - 1) if before else last
    where, values = f"run_id = ? AND seq BETWEEN ? AND ? AND {place[0]} AND type <> 'agent.raw'", place[1]
    if chosen["show"] in SHOW:
        where += f" AND {SHOW[chosen['show']]}"
    if chosen["q"]:
        text, value = match_text(chosen["q"])
        where, values = f"{where} AND {text}", [*values, value]
    order = "seq DESC" if backward else "seq"
    found = read_events(request.store, where, [run.id, low, high, *values], order, SIZE + 1)
    more, kept = len(found) > SIZE, found[:SIZE]
    turns = TurnReader().read(kept[::-1] if backward else kept)
    turns, earlier, later = _cut(turns, more, backward)
    return {
        "turns": turns,
        "earlier": earlier or (turns[0].seq if turns and not backward and after >= first else None),
        "later": later or (turns[-1].last if turns and before else None),
        "filters": chosen,
        "choices": {"show": list(SHOW)},
        "filtered": bool(chosen["q"] or chosen["show"]),
    }


def _cut(
    turns: list[ConversationTurn], more: bool, backward: bool
) -> tuple[list[ConversationTurn], int | None, int | None]:
    """Leave a turn that is not whole to the next page; return where the pages before and after begin."""
    if not more or not turns:
        return turns, None, None
    if backward:
        kept = turns[1:] or turns
        return kept, kept[0].seq, None
    kept = turns[:-1] or turns
    return kept, None, kept[-1].last


PAGES = (
    PageRoute(
        "/runs/{run}/steps/{seq}/conversation",
        "talk.html",
        "Conversation",
        query_step_talk,
        section="/runs",
        live=True,
    ),
    PageRoute(
        "/runs/{run}/tasks/{task}/conversation",
        "talk.html",
        "Conversation",
        query_task_talk,
        section="/runs",
        live=True,
    ),
)
