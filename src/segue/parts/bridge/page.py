"""The pages of the bridge: conversations with agents, and the results of the commands they printed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from segue.domain.run import Run, RunKind
from segue.parts.bridge.conversations import describe, list_conversations
from segue.web import queries
from segue.web.inbox import list_questions
from segue.web.routes import (
    Data,
    NotFound,
    PageRequest,
    PageRoute,
    slice_page,
)

if TYPE_CHECKING:
    from segue.store.store import Store


SIZE = 20
"""Conversations on one page."""

KINDS = {"SUBAGENT": "subagents", "LOCAL_ACTION": "actions", "REMIND": "reminders"}
_RESULT = ("repo", "branch", "url", "exit_code", "reason", "text", "stdout")


def query_conversations(request: PageRequest) -> Data:
    """Return the conversations, newest first."""
    runs = list_conversations(request.store)
    number, pages = request.page(len(runs), SIZE)
    return {
        "title": "Bridge",
        "questions": list_questions(request.app),
        "conversations": [_summarize(request.store, run) for run in slice_page(runs, number, SIZE)],
        "total": len(runs),
        "page": number,
        "pages": pages,
    }


def query_conversation(request: PageRequest) -> Data:
    """Return one conversation, turn by turn."""
    run = queries.get_run(request.store, request.path["run"])
    if run.spec.kind is not RunKind.CONVERSATION:
        raise NotFound(f"Run {run.id} is not a conversation.", hint=f"See /runs/{run.id}")
    steps = request.store.steps(run.id)
    facts = describe(request.store, run)
    turns = facts.pop("conversation")
    reminders = {step.key.removesuffix("/due") for step in steps if step.phase == "due" and step.ended}
    for turn in turns:
        for index, command in enumerate(turn["commands"], 1):
            command |= _describe_command(command, f"turn/{turn['turn']}/command/{index}", reminders)
    return {"title": "Conversation", "conversation": facts, "turns": turns, "done": _group_commands(turns)}


def _describe_command(command: Mapping[str, Any], key: str, reminded: set[str]) -> dict[str, Any]:
    """Describe a command: its kind, its status and its result."""
    kind, _, rest = str(command["line"]).partition(":")
    result = command["result"] or {}
    status = str(result.get("status", "running"))
    if kind == "REMIND" and status == "set":
        status = "sent" if key in reminded else "set"
    due = int(result["due"] * 1000) if isinstance(result.get("due"), int | float) else None
    came = {name: result.get(name) for name in _RESULT}
    facts = {"key": key, "kind": KINDS.get(kind, "other"), "word": kind, "asks": rest.strip()}
    return {**facts, "status": status, "came": {**came, "due": due}}


def _group_commands(turns: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Group the subagents, actions and reminders of all turns."""
    commands = [command for turn in turns for command in turn["commands"]]
    return {name: [one for one in commands if one["kind"] == name] for name in KINDS.values()}


def _summarize(store: Store, run: Run) -> dict[str, Any]:
    found = describe(store, run)
    turns = found.pop("conversation")
    words = [str(command["line"]).partition(":")[0] for turn in turns for command in turn["commands"]]
    return {**found, "commands": dict(Counter(KINDS.get(word, "other") for word in words))}


PAGES = (
    PageRoute("/bridge", "bridge.html", "Bridge", query_conversations, menu="Runs", live=True),
    PageRoute(
        "/bridge/{run}",
        "conversation.html",
        "Conversation",
        query_conversation,
        section="/bridge",
        live=True,
        home_of=RunKind.CONVERSATION,
    ),
)
