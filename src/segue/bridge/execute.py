"""Carries out one command: what came of it is written down once, and is told to the agent."""

from __future__ import annotations

import asyncio
import importlib
import json
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from importlib.metadata import entry_points
from typing import Any

from segue.bridge import completion
from segue.bridge.allowed import Target, target
from segue.bridge.clone import Clone
from segue.bridge.commands import Command, Extension, LocalAction, Remind, Subagent, WebhookResult
from segue.bridge.desk import Desk
from segue.bridge.launch import Launch, OverBudget, launched
from segue.bridge.relay import run_action
from segue.domain.errors import SegueError, ToolMissing, UsageError, WorkspaceError
from segue.domain.event import EventType
from segue.domain.outcome import Outcome
from segue.domain.run import StepState
from segue.ports import Agent, StepFacts, StepResult
from segue.prompts.bridge import subagent_prompt

GROUP = "segue.bridge"
"""The entry-point group of further commands: keyword → `async def run(payload, token) -> dict`."""

_EXTENSION_SECONDS = 600.0
_KEPT_TEXT = 16 * 1024


async def execute(desk: Desk, key: str, command: Command) -> StepResult:
    """Carry a command out, or return what the journal knows of it."""
    match command:
        case Subagent():
            return await _subagent(desk, key, command)
        case LocalAction():
            return await _stepped(desk, key, command, lambda token: _action(desk, command, token))
        case Remind():
            return await _remind(desk, key, command)
        case WebhookResult():
            return await _webhook_result(desk, key, command)
        case Extension():
            return await _stepped(desk, key, command, lambda token: _extension(command, token))


async def _concluded(desk: Desk, key: str, status: str, **facts: Any) -> StepResult:
    """Write down what came of a command, unless that was done before."""
    if desk.journal.state(key) is None:
        await desk.emit(EventType.BRIDGE_RESULT, key, command=key, status=status, **facts)
    output = desk.redactor.data({"status": status, **facts})
    return await desk.journal.record(key, StepResult(status in ("done", "set", "heard"), output))


async def _stepped(
    desk: Desk, key: str, command: Command, work: Callable[[str], Coroutine[Any, Any, dict[str, Any]]]
) -> StepResult:
    """A command whose effect takes the step's token along, so that it happens once."""

    async def run(token: str) -> StepResult:
        output = desk.redactor.data(await work(token))
        await desk.emit(EventType.BRIDGE_RESULT, key, command=key, **output)
        return StepResult(output["status"] == "done", output)

    return await desk.journal.step(key, run, facts=StepFacts(phase=type(command).__name__.lower()))


async def _action(desk: Desk, command: LocalAction, token: str) -> dict[str, Any]:
    done = await run_action(desk.settings, command, token)
    return {"status": done.status, "action": command.action, **done.facts}


async def _extension(command: Extension, token: str) -> dict[str, Any]:
    """A command that somebody else has written; whatever it does wrong is told, nothing breaks."""
    found = [point for point in entry_points(group=GROUP) if point.name == command.keyword]
    if not found:
        return {"status": "refused", "reason": f"nothing is installed for {command.keyword}"}
    module, _, name = found[0].value.partition(":")
    try:
        run = getattr(importlib.import_module(module), name)
        async with asyncio.timeout(_EXTENSION_SECONDS):
            result = await run(dict(command.payload), token)
        return {"status": "done", "text": json.dumps(result, ensure_ascii=False, default=str)[:_KEPT_TEXT]}
    except Exception as error:
        return {"status": "failed", "reason": f"{type(error).__name__}: {error}"}


async def _remind(desk: Desk, key: str, command: Remind) -> StepResult:
    due = command.when.timestamp()
    if desk.journal.state(key) is None:
        await desk.emit(
            EventType.BRIDGE_REMINDER, key, command=key, due=due, message=command.message, told=False
        )
    at = datetime.fromtimestamp(due, UTC).isoformat()
    return await _concluded(desk, key, "set", due=due, at=at, message=command.message)


async def _webhook_result(desk: Desk, key: str, command: WebhookResult) -> StepResult:
    """A confirmation is heard; `status=summary` asks for all that a subagent said."""
    known = [s.output for s in desk.journal.steps("turn/") if s.output.get("agent_id") == command.agent_id]
    if not known:
        reason = "there is no such subagent in this conversation"
        return await _concluded(desk, key, "refused", agent_id=command.agent_id, reason=reason)
    if command.status.lower() != "summary":
        return await _concluded(desk, key, "heard", agent_id=command.agent_id)
    return await _concluded(desk, key, "done", agent_id=command.agent_id, text=known[0].get("text", ""))


async def _subagent(desk: Desk, key: str, command: Subagent) -> StepResult:
    if desk.journal.state(key) is not None:
        return await _concluded(desk, key, "done")
    try:
        place, agent = _allowed(desk, command)
    except (ValueError, SegueError) as error:
        named = command.repo.rpartition("@")[2]  # before it there may be a password
        return await _concluded(desk, key, "refused", repo=named, reason=str(error))
    try:
        async with desk.journal.slot("bridge", desk.settings.concurrency):
            result = await _worked(desk, key, command, place, agent)
    except (OverBudget, WorkspaceError, ToolMissing) as error:
        status = "refused" if isinstance(error, OverBudget) else "error"
        return await _concluded(desk, key, status, repo=place.name, reason=str(error))
    facts = _facts(key, place, agent.name, result)
    await completion.tell(desk, key, facts)
    return await _concluded(desk, key, **facts)


def _allowed(desk: Desk, command: Subagent) -> tuple[Target, Agent]:
    """Where and by whom the work is done; raises before anything is sent."""
    settings = desk.settings
    usual = settings.subagent or desk.journal.run.spec.agent
    name = command.agent or usual
    if name not in (usual, *settings.allow_agents):
        raise ValueError(f"the agent {name} is not allowed (bridge.allow_agents)")
    place = target(command.repo, settings.allow_repos)
    agent = desk.agent(name, place.repository)
    if agent.can.cloud and place.repository is None:
        raise ValueError(f"{name} works on hosted repositories, and {place.name} is a folder")
    if not agent.can.cloud and place.folder is None:
        raise ValueError(f"{name} works on this machine, and no folder is named for {place.name}")
    if problems := agent.check():
        raise UsageError(problems[0].message, hint=problems[0].fix)
    return place, agent


async def _worked(desk: Desk, key: str, command: Subagent, place: Target, agent: Agent) -> StepResult:
    prompt = subagent_prompt(command.prompt, agent.can.cloud, nonce=f"{desk.journal.run.id} {key}")
    launch = Launch(key, "subagent", agent, prompt, desk.folder(), model=command.model, base=command.branch)
    if agent.can.cloud:
        return await launched(desk, launch)
    assert place.folder is not None
    name = key.replace("/", "-")
    clone = Clone(
        place.folder, desk.folder("clones") / name, f"segue/{desk.journal.run.id}/{name}", command.branch
    )

    async def hand_in(_outcome: Outcome) -> dict[str, Any]:
        branch = await clone.hand_in(f"{command.prompt[:72]}\n\nSegue-Conversation: {desk.journal.run.id}\n")
        return {"branches": [branch] if branch else []}

    if desk.journal.state(f"{key}/launch/1") in (None, StepState.STARTED):
        await clone.prepare()
    launch = Launch(key, "subagent", agent, prompt, clone.folder, model=command.model)
    result = await launched(desk, launch, hand_in)
    clone.remove()
    return result


def _facts(key: str, place: Target, agent: str, result: StepResult) -> dict[str, Any]:
    """What is known of a subagent that has ended."""
    output = result.output
    failure = output.get("failure") or {}
    facts = {
        "status": "done" if result.ok else "error",
        "agent_id": output.get("agent_id") or f"local-{key.replace('/', '-')}",
        "agent": agent,
        "repo": place.name,
        "branch": ", ".join(output.get("branches") or []),
        "url": output.get("url", ""),
        "reason": str(failure.get("message", "")),
        "text": str(output.get("text", ""))[-_KEPT_TEXT:],
    }
    return {name: value for name, value in facts.items() if value or name == "status"}
