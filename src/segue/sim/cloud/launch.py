"""Launch agents and follow-ups: what v0 and v1 have in common."""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass
from typing import Any

from segue.sim.cloud.answers import CloudRefusal
from segue.sim.cloud.feed import Feed
from segue.sim.cloud.objects import Checkout, CloudAgentRecord, CloudRunRecord, Webhook
from segue.sim.cloud.remote import normalize_url
from segue.sim.cloud.state import Cloud
from segue.sim.cloud.switches import pick_play
from segue.sim.cloud.work import do_run, finish


@dataclass(frozen=True, slots=True)
class WantedRepository:
    """A repository to work in, named by its address or by a pull request."""

    request: dict[str, Any]
    url: str | None
    ref: str | None = None
    pull: str | None = None
    branch: str | None = None
    """The name of the new branch, which can be chosen in v0 only."""
    on_current: bool = False


@dataclass(frozen=True, slots=True)
class CloudLaunchOrder:
    """A launch, in terms that both versions share."""

    prompt: str
    repos: list[WantedRepository]
    request: dict[str, Any]
    name: str | None = None
    agent_id: str | None = None
    auto_pr: bool = False
    webhook: Webhook | None = None
    model: str | None = None


async def launch(
    cloud: Cloud, order: CloudLaunchOrder
) -> tuple[CloudAgentRecord, CloudRunRecord, asyncio.Task[None]]:
    """Add an agent and start its first run."""
    check_model(cloud, order.model)
    name = order.name or _make_title(order.prompt)
    checkouts = [await _checkout(cloud, wanted, name) for wanted in order.repos]
    # No await from here on, so that of two launches with the same id only one succeeds.
    if order.agent_id in cloud.agents:
        raise CloudRefusal("agent_id_conflict")
    agent_id = order.agent_id or f"bc-{uuid.uuid4()}"
    number = len(cloud.agents) + 1
    agent = CloudAgentRecord(agent_id, number, name, order.request, checkouts, order.webhook, order.auto_pr)
    run, task = start_run(cloud, agent, order.prompt)
    return agent, run, task


def follow_up(
    cloud: Cloud, agent: CloudAgentRecord, prompt: str
) -> tuple[CloudRunRecord, asyncio.Task[None]]:
    """Start another run of an agent that is free."""
    if agent.archived:
        raise CloudRefusal("agent_archived")
    if agent.latest.is_active:
        raise CloudRefusal("agent_busy")
    return start_run(cloud, agent, prompt)


def start_run(
    cloud: Cloud, agent: CloudAgentRecord, prompt: str
) -> tuple[CloudRunRecord, asyncio.Task[None]]:
    """Add a run and start it."""
    if cloud.script.active_limit and cloud.count_active() >= cloud.script.active_limit:
        raise CloudRefusal("rate_limit_exceeded", "Too many active agents.")
    number = len(agent.runs) + 1
    play = pick_play(cloud.deck, prompt, number, agent.number)
    run_id = f"run-{uuid.uuid4()}"
    run = CloudRunRecord(run_id, number, prompt, play, Feed(run_id))
    agent.runs.append(run)
    agent.messages.append({"id": str(uuid.uuid4()), "type": "user_message", "text": prompt})
    agent.updated = time.time()
    cloud.agents[agent.id] = agent
    return run, cloud.start(run, do_run(cloud, agent, run))


def cancel(cloud: Cloud, agent: CloudAgentRecord, run: CloudRunRecord) -> None:
    """End a run that is active."""
    if not run.is_active:
        raise CloudRefusal("run_not_cancellable")
    cloud.halt(run)
    finish(agent, run, "CANCELLED")


def delete(cloud: Cloud, agent: CloudAgentRecord) -> None:
    """Delete an agent; its id stays taken."""
    if agent.latest.is_active:
        cancel(cloud, agent, agent.latest)
    agent.deleted = True


def check_model(cloud: Cloud, wanted: str | None) -> None:
    """Refuse a model that is not in the list of models."""
    if wanted in (None, "default"):
        return
    names: set[str] = set()
    for model in cloud.script.models:
        names |= {model} if isinstance(model, str) else {model["id"], *model.get("aliases", [])}
    if wanted not in names:
        raise CloudRefusal("validation_error", f"model: unknown model {wanted!r}")


async def _checkout(cloud: Cloud, wanted: WantedRepository, name: str) -> Checkout:
    url, ref, on_current = wanted.url, wanted.ref, wanted.on_current
    if wanted.pull is not None:
        pull = cloud.pulls.get(wanted.pull)
        if pull is None:
            raise CloudRefusal("validation_error", f"prUrl: {wanted.pull} cannot be found")
        url, ref = f"https://{pull.url}", pull.branch
    remote = cloud.remotes.find(url or "")
    if remote is None:
        raise CloudRefusal("validation_error", f"repository {url} cannot be found or accessed")
    base = await remote.resolve(ref)
    if base is None and ref is not None:
        raise CloudRefusal("validation_error", f"Failed to verify existence of branch {ref!r} in {url}")
    target, new = wanted.branch or cloud.new_branch(name), True
    if on_current:
        current = ref or await remote.find_default_branch()
        if ref is None or await remote.find_tip(current):
            target, new = current, False
    return Checkout(
        normalize_url(url or ""), remote, ref, target, new and not wanted.branch, base, wanted.request
    )


def _make_title(prompt: str) -> str:
    return (prompt.strip().splitlines() or ["Agent"])[0][:60] or "Agent"
