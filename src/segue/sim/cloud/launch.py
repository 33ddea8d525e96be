"""Launches agents and follow-ups: what v0 and v1 have in common."""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from segue.sim.cloud.answers import Refusal
from segue.sim.cloud.feed import Feed
from segue.sim.cloud.objects import Agent, Checkout, Run, Webhook
from segue.sim.cloud.remote import canonical
from segue.sim.cloud.state import Cloud
from segue.sim.cloud.work import carry, finish


@dataclass(frozen=True, slots=True)
class Wanted:
    """A repository that is asked for, by its address or by a pull request."""

    asked: dict[str, Any]
    url: str | None
    ref: str | None = None
    pull: str | None = None
    branch: str | None = None
    """A name for the new branch, which only v0 lets one choose."""
    on_current: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """A launch in words both versions share."""

    prompt: str
    repos: list[Wanted]
    request: dict[str, Any]
    name: str | None = None
    agent_id: str | None = None
    auto_pr: bool = False
    webhook: Webhook | None = None
    model: str | None = field(default=None)


async def launch(cloud: Cloud, order: Order) -> tuple[Agent, Run, asyncio.Task[None]]:
    """Add an agent and start its first run."""
    check_model(cloud, order.model)
    name = order.name or _title(order.prompt)
    checkouts = [await _checkout(cloud, wanted, name) for wanted in order.repos]
    # From here on nothing waits, so that of two launches with one id only one succeeds.
    if order.agent_id in cloud.agents:
        raise Refusal("agent_id_conflict")
    agent_id = order.agent_id or f"bc-{uuid.uuid4()}"
    number = len(cloud.agents) + 1
    agent = Agent(agent_id, number, name, order.request, checkouts, order.webhook, order.auto_pr)
    run, task = start_run(cloud, agent, order.prompt)
    return agent, run, task


def follow_up(cloud: Cloud, agent: Agent, prompt: str) -> tuple[Run, asyncio.Task[None]]:
    """Start another run of an agent that is free."""
    if agent.archived:
        raise Refusal("agent_archived")
    if agent.latest.active:
        raise Refusal("agent_busy")
    return start_run(cloud, agent, prompt)


def start_run(cloud: Cloud, agent: Agent, prompt: str) -> tuple[Run, asyncio.Task[None]]:
    """Add a run and let it work."""
    if cloud.script.active_limit and cloud.active() >= cloud.script.active_limit:
        raise Refusal("rate_limit_exceeded", "Too many active agents.")
    number = len(agent.runs) + 1
    play = cloud.playbook.pick(prompt, number, agent.number)
    run_id = f"run-{uuid.uuid4()}"
    run = Run(run_id, number, prompt, play, Feed(run_id))
    agent.runs.append(run)
    agent.messages.append({"id": str(uuid.uuid4()), "type": "user_message", "text": prompt})
    agent.updated = time.time()
    cloud.agents[agent.id] = agent
    return run, cloud.start(run, carry(cloud, agent, run))


def cancel(cloud: Cloud, agent: Agent, run: Run) -> None:
    """End a run that is active."""
    if not run.active:
        raise Refusal("run_not_cancellable")
    cloud.halt(run)
    finish(agent, run, "CANCELLED")


def delete(cloud: Cloud, agent: Agent) -> None:
    """Forget an agent; its id stays taken."""
    if agent.latest.active:
        cancel(cloud, agent, agent.latest)
    agent.deleted = True


def check_model(cloud: Cloud, wanted: str | None) -> None:
    """Refuse a model that the list of models does not have."""
    if wanted in (None, "default"):
        return
    names: set[str] = set()
    for model in cloud.script.models:
        names |= {model} if isinstance(model, str) else {model["id"], *model.get("aliases", [])}
    if wanted not in names:
        raise Refusal("validation_error", f"model: unknown model {wanted!r}")


async def _checkout(cloud: Cloud, wanted: Wanted, name: str) -> Checkout:
    url, ref, on_current = wanted.url, wanted.ref, wanted.on_current
    if wanted.pull is not None:
        pull = cloud.pulls.get(wanted.pull)
        if pull is None:
            raise Refusal("validation_error", f"prUrl: {wanted.pull} cannot be found")
        url, ref = f"https://{pull.url}", pull.branch
    remote = cloud.remotes.find(url or "")
    if remote is None:
        raise Refusal("validation_error", f"repository {url} cannot be found or accessed")
    base = await remote.resolve(ref)
    if base is None and ref is not None:
        raise Refusal("validation_error", f"Failed to verify existence of branch {ref!r} in {url}")
    target, new = wanted.branch or cloud.new_branch(name), True
    if on_current:
        current = ref or await remote.default_branch()
        if ref is None or await remote.tip(current):
            target, new = current, False
    return Checkout(canonical(url or ""), remote, ref, target, new and not wanted.branch, base, wanted.asked)


def _title(prompt: str) -> str:
    return (prompt.strip().splitlines() or ["Agent"])[0][:60] or "Agent"
