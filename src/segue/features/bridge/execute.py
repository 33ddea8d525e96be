"""Executes one command: its result is recorded once, for the agent to read."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

from segue.domain.results import StepFacts, StepResult
from segue.features.bridge.commands import (
    AgentCommand,
    LocalAction,
    Remind,
    Subagent,
    WebhookResult,
)
from segue.features.bridge.context import ConversationContext
from segue.features.bridge.events import BridgeReminder, BridgeResult
from segue.features.bridge.relay_client import run_action
from segue.features.bridge.steps import CommandOutput
from segue.features.bridge.subagent import run_subagent


async def execute(context: ConversationContext, key: str, command: AgentCommand) -> None:
    """Execute a command, unless the journal already knows its result."""
    match command:
        case Subagent():
            if context.journal.state(key) is None:
                await _record(context, key, **await run_subagent(context, key, command))
        case LocalAction():
            await _run_step(context, key, command, lambda token: _run_action(context, command, token))
        case Remind():
            await _set_reminder(context, key, command)
        case WebhookResult():
            await _record(context, key, **_answer_webhook_result(context, command))


async def _record(context: ConversationContext, key: str, status: str, **facts: Any) -> None:
    """Record the result of a command, unless that has been done."""
    output = CommandOutput(status, facts)
    if context.journal.state(key) is None:
        await context.emit(_event(key, output), key)
    await context.journal.record(key, StepResult(status in ("done", "set", "heard"), output))


def _event(key: str, output: CommandOutput) -> BridgeResult:
    details = {name: value for name, value in output.facts.items() if name not in ("reason", "branch")}
    reason, branch = str(output.facts.get("reason", "")), output.facts.get("branch")
    return BridgeResult(key, output.status, reason, branch, details)


async def _run_step(
    context: ConversationContext,
    key: str,
    command: AgentCommand,
    work: Callable[[str], Coroutine[Any, Any, CommandOutput]],
) -> None:
    """Run a command whose effect is identified by the step's token, so that it happens once."""

    async def run(token: str) -> StepResult[CommandOutput]:
        output = context.journal.redact(await work(token))
        await context.emit(_event(key, output), key)
        return StepResult(output.status == "done", output)

    facts = StepFacts(phase=type(command).__name__.lower())
    await context.journal.step(key, CommandOutput, run, facts=facts)


async def _run_action(context: ConversationContext, command: LocalAction, token: str) -> CommandOutput:
    result = await run_action(context.settings, command, token)
    return CommandOutput(result.status, {"action": command.action, **result.facts})


async def _set_reminder(context: ConversationContext, key: str, command: Remind) -> None:
    due = command.when.timestamp()
    if context.journal.state(key) is None:
        await context.emit(BridgeReminder(key, due, command.message), key)
    at = datetime.fromtimestamp(due, UTC).isoformat()
    await _record(context, key, "set", due=due, at=at, message=command.message)


def _answer_webhook_result(context: ConversationContext, command: WebhookResult) -> dict[str, Any]:
    """Acknowledge a confirmation; `status=summary` asks for everything a subagent said."""
    facts: dict[str, Any] = {"agent_id": command.agent_id}
    results = [CommandOutput.read(step.output).facts for step in context.journal.steps("turn/")]
    known = [facts for facts in results if facts.get("agent_id") == command.agent_id]
    if not known:
        return {**facts, "status": "refused", "reason": "this conversation has no such subagent"}
    if command.status.lower() != "summary":
        return {**facts, "status": "heard"}
    return {**facts, "status": "done", "text": known[0].get("text", "")}
