"""The conversation with an agent, of one launch or of all for a task: searched, filtered and paged."""

from __future__ import annotations

from typing import Any

from segue.domain.run import Run
from segue.reports.drawing import label_phase
from segue.web import queries
from segue.web.events import match_text, read_events
from segue.web.routes import Data, NotFound, PageRequest, PageRoute
from segue.web.run import describe_step
from segue.web.step import find_step
from segue.web.task import find_task
from segue.web.turns import ConversationTurn, TurnReader

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
        "steps": {step["key"]: describe_step({**step, "result": None, "action": None, "reason": None})},
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
        "steps": {str(step["key"]): describe_step(step) for step in steps},
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
