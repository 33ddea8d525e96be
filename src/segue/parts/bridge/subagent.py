"""Runs the subagent that a SUBAGENT command asks for, in the cloud or in a clone on this machine."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from segue.domain.answer import keep_end
from segue.domain.errors import SegueError, ToolMissing, UsageError, WorkspaceError
from segue.domain.job import Mode
from segue.domain.outcome import Outcome
from segue.domain.results import LaunchOutput, StepResult
from segue.domain.run import StepState
from segue.flow.agents import ChosenAgent, OverBudget
from segue.flow.launch import LaunchRequest
from segue.parts.bridge.allowed import RepoTarget, find_target
from segue.parts.bridge.clone import Clone
from segue.parts.bridge.commands import Subagent
from segue.parts.bridge.completion import report_completion
from segue.parts.bridge.context import ConversationContext
from segue.parts.bridge.launch import launch_agent
from segue.ports import Agent
from segue.prompts.bridge import subagent_prompt

KEPT_TEXT = 16 * 1024
"""Characters of what a subagent says that the agent reads; its branch has the work."""


async def run_subagent(context: ConversationContext, key: str, command: Subagent) -> dict[str, Any]:
    """Run a subagent and report its end; return what the agent is shown, refusals included."""
    try:
        target, agent = _choose(context, key, command)
    except (ValueError, SegueError) as error:
        name = command.repo.rpartition("@")[2]  # a password may stand before the @
        return {"status": "refused", "repo": name, "reason": str(error)}
    try:
        async with context.journal.slot("bridge", context.settings.concurrency):
            result = await _launch(context, key, command, target, agent)
    except (OverBudget, WorkspaceError, ToolMissing) as error:
        if isinstance(error, OverBudget):
            reason = error.reason.replace("limits.", "bridge.")
            return {"status": "refused", "repo": target.name, "reason": reason}
        return {"status": "error", "repo": target.name, "reason": str(error)}
    facts = _describe(key, target, agent.name, result)
    await report_completion(context, key, facts)
    return facts


def _choose(context: ConversationContext, key: str, command: Subagent) -> tuple[RepoTarget, Agent]:
    """Return where the work is done, and by whom; raise before anything is sent."""
    settings = context.settings
    usual = settings.subagent or context.journal.run.spec.agent
    name = command.agent or usual
    if name not in (usual, *settings.allow_agents):
        raise ValueError(f"the agent {name} is not allowed (bridge.allow_agents)")
    target = find_target(command.repo, settings.allow_repos)
    agent = context.make_agent(name, target.repository)
    if agent.can.cloud and target.repository is None:
        raise ValueError(f"{name} works on hosted repositories, but {target.name} is a folder")
    if not agent.can.cloud and target.folder is None:
        raise ValueError(f"{name} works on this machine, but no folder is configured for {target.name}")
    begun = context.journal.state(f"{key}/launch/1") is not None
    if not begun and (problems := agent.check()):  # one that has ended is reported all the same
        raise UsageError(problems[0].message, hint=problems[0].fix)
    return target, agent


async def _launch(
    context: ConversationContext, key: str, command: Subagent, target: RepoTarget, agent: Agent
) -> StepResult[LaunchOutput]:
    run = context.journal.run.id
    prompt = subagent_prompt(command.prompt, agent.can.cloud, nonce=f"{run} {key}")
    by = ChosenAgent(agent, command.model)
    request = LaunchRequest(prompt, Mode.EDIT, context.folder())
    if agent.can.cloud:
        return await launch_agent(context, key, "subagent", by, replace(request, base=command.branch))
    assert target.folder is not None
    name = key.replace("/", "-")
    clone = Clone(target.folder, context.folder("clones") / name, f"segue/{run}/{name}", command.branch)

    async def push(_outcome: Outcome) -> tuple[str, ...]:
        branch = await clone.push(f"{command.prompt[:72]}\n\nSegue-Conversation: {run}\n")
        return (branch,) if branch else ()

    if context.journal.state(f"{key}/launch/1") in (None, StepState.STARTED):
        await clone.prepare()
    local = replace(request, workspace=clone.folder)
    result = await launch_agent(context, key, "subagent", by, local, push)
    clone.remove()
    return result


def _describe(key: str, target: RepoTarget, agent: str, result: StepResult[LaunchOutput]) -> dict[str, Any]:
    """Return what is known of a subagent that has ended."""
    output = result.output
    facts = {
        "status": "done" if result.ok else "error",
        "agent_id": output.agent_id or f"local-{key.replace('/', '-')}",
        "agent": agent,
        "repo": target.name,
        "branch": ", ".join(output.branches),
        "url": output.url or "",
        "reason": output.failure.message if output.failure else "",
        "text": keep_end(output.text, KEPT_TEXT),
    }
    return {name: value for name, value in facts.items() if value or name == "status"}
