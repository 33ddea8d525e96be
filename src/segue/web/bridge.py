"""The pages of the bridge: conversations with agents, and what came of the commands they printed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from segue.bridge.conversations import KIND, describe, summarise
from segue.ports import Store
from segue.relay.questions import Questions
from segue.runtime.wiring import App
from segue.store.projections import state_of
from segue.web import queries as facts
from segue.web.pages import Act, Asked, Data, Done, Missing, Page

SIZE = 20
"""Conversations on one page."""

KINDS = {"SUBAGENT": "subagents", "LOCAL_ACTION": "actions", "REMIND": "reminders"}
_CAME = ("repo", "branch", "url", "exit_code", "reason", "text", "stdout")


def conversations(asked: Asked) -> Data:
    """The conversations, newest first."""
    ids = _ids(asked.store)
    pages = max(1, -(-len(ids) // SIZE))
    number = min(asked.number("page", 1) or 1, pages)
    runs = [asked.store.run(run) for run in ids[(number - 1) * SIZE : number * SIZE]]
    return {
        "title": "Bridge",
        "questions": [asdict(question) for question in _relay(asked.app).open()],
        "conversations": [_conversation(asked.store, run.id) for run in runs if run],
        "total": len(ids),
        "page": number,
        "pages": pages,
    }


def conversation(asked: Asked) -> Data:
    """One conversation, turn by turn."""
    run = facts.run_of(asked.store, asked.path["run"])
    if run.spec.source_kind != KIND:
        raise Missing(f"Run {run.id} is no conversation.", hint=f"See /runs/{run.id}")
    steps = asked.store.steps(run.id)
    told = describe(run, steps, state_of(run))
    turns = told.pop("conversation")
    reminders = {step.key.removesuffix("/due") for step in steps if step.phase == "due" and step.ended}
    for turn in turns:
        for index, command in enumerate(turn["commands"], 1):
            command |= _command(command, f"turn/{turn['turn']}/command/{index}", reminders)
    return {"title": "Conversation", "conversation": told, "turns": turns, "done": _done(turns)}


def _command(command: Mapping[str, Any], key: str, reminded: set[str]) -> dict[str, Any]:
    """The kind of a command, and its status as people say it."""
    kind, _, rest = str(command["line"]).partition(":")
    result = command["result"] or {}
    status = str(result.get("status", "running"))
    if kind == "REMIND" and status == "set":
        status = "sent" if key in reminded else "set"
    due = int(result["due"] * 1000) if isinstance(result.get("due"), int | float) else None
    came = {name: result.get(name) for name in _CAME}
    told = {"key": key, "kind": KINDS.get(kind, "other"), "word": kind, "asks": rest.strip()}
    return {**told, "status": status, "came": {**came, "due": due}}


def _done(turns: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The subagents, actions and reminders of all turns."""
    commands = [command for turn in turns for command in turn["commands"]]
    return {name: [one for one in commands if one["kind"] == name] for name in KINDS.values()}


def _conversation(store: Store, run_id: str) -> dict[str, Any]:
    run = facts.run_of(store, run_id)
    steps = store.steps(run_id)
    told = describe(run, steps, state_of(run))["conversation"]
    lines = [str(command["line"]).partition(":")[0] for turn in told for command in turn["commands"]]
    counts = Counter(KINDS.get(word, "other") for word in lines)
    return {**summarise(run, steps, state_of(run)), "commands": dict(counts)}


def _ids(store: Store) -> list[str]:
    rows = store.query(
        "SELECT id FROM orchestrator_runs WHERE spec->>'source_kind' = ? ORDER BY created DESC, id", [KIND]
    )
    return [str(row["id"]) for row in rows]


async def allow(app: App, path: Mapping[str, str], _form: Mapping[str, str]) -> Done:
    """Answer the relay that an action may run."""
    return Done(f"Allowed: {_relay(app).answer(path['question'], yes=True).text}", "/bridge")


async def refuse(app: App, path: Mapping[str, str], _form: Mapping[str, str]) -> Done:
    """Answer the relay that an action may not run."""
    return Done(f"Refused: {_relay(app).answer(path['question'], yes=False).text}", "/bridge")


def _relay(app: App) -> Questions:
    return Questions(app.state_dir / "relay")


ACTS = (
    Act("/bridge/questions/{question}/allow", allow),
    Act("/bridge/questions/{question}/refuse", refuse),
)
PAGES = (
    Page("/bridge", "bridge.html", "Bridge", conversations, menu=True, live=True),
    Page("/bridge/{run}", "conversation.html", "Conversation", conversation, section="/bridge", live=True),
)
