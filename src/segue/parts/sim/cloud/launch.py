"""Launch agents and follow-ups, and do their work: statuses, events, push, webhook, end."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
import uuid
from collections.abc import Sequence
from typing import Any

import httpx2
from msgspec import Struct

from segue.parts.sim.cloud.feed import TERMINAL, Feed, say, think, use_tools
from segue.parts.sim.cloud.objects import NO_USAGE, Checkout, CloudAgentRecord, CloudRunRecord, format_time
from segue.parts.sim.cloud.remote import BranchTaken, Change, normalize_url
from segue.parts.sim.cloud.requests import CloudRefusal, WebhookBodyV0
from segue.parts.sim.cloud.script import CloudEntry, make_slug, pick_play
from segue.parts.sim.cloud.state import Cloud

_WRONG = "another secret than the one agreed on"


def sign_body(secret: str, body: bytes) -> str:
    """Return the value of `X-Webhook-Signature`."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


async def notify(cloud: Cloud, agent: CloudAgentRecord, run: CloudRunRecord) -> None:
    """Deliver the end of a run that is FINISHED or in ERROR, and of no other."""
    hook = agent.webhook
    if hook is None or run.status not in ("FINISHED", "ERROR") or run.play.entry.has("webhook_lost"):
        return
    body = json.dumps(_build_payload(agent, run), ensure_ascii=False).encode()
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Cursor-Agent-Webhook/1.0",
        "X-Webhook-Event": "statusChange",
        "X-Webhook-ID": str(uuid.uuid4()),
        **_sign(hook, run, body),
    }
    for _ in range(2 if run.play.entry.has("webhook_duplicate") else 1):
        await _deliver(cloud, hook.url, headers, body)


async def _deliver(cloud: Cloud, url: str, headers: dict[str, str], body: bytes) -> None:
    """Send, and retry with the same id until it is accepted."""
    pause = cloud.script.webhook_pause
    for left in range(cloud.script.webhook_retries, -1, -1):
        try:
            if (await cloud.client.post(url, content=body, headers=headers)).is_success:
                return
        except httpx2.HTTPError:
            pass
        if left:
            await asyncio.sleep(pause)
            pause *= 2


def _sign(hook: WebhookBodyV0, run: CloudRunRecord, body: bytes) -> dict[str, str]:
    if hook.secret is None or run.play.entry.has("webhook_unsigned"):
        return {}
    secret = _WRONG if run.play.entry.has("webhook_bad_signature") else hook.secret
    return {"X-Webhook-Signature": sign_body(secret, body)}


def _build_payload(agent: CloudAgentRecord, run: CloudRunRecord) -> dict[str, Any]:
    shown = agent.describe_v0("FINISHED")
    target = {
        name: shown["target"][name] for name in ("url", "branchName", "prUrl") if name in shown["target"]
    }
    facts = {
        "event": "statusChange",
        "timestamp": format_time(time.time()),
        "id": agent.id,
        "status": run.status,
        "source": agent.describe_source(),
        "target": target,
    }
    return facts | ({"summary": run.result} if run.result else {})


_LIVES = {
    "stuck": ["CREATING"],
    "hang": ["CREATING", "RUNNING"],
    "unknown_status": ["CREATING", "RUNNING", "HIBERNATING"],
    "error": ["CREATING", "RUNNING", "ERROR"],
    "error_bare": ["CREATING", "RUNNING", "ERROR"],
    "expired": ["CREATING", "RUNNING", "EXPIRED"],
}
"""The statuses a fault leads through."""

_PUSH_NOTHING = {"no_branch", "error_bare", "expired", "hang", "unknown_status"}
"""With these faults nothing is pushed."""


async def do_run(cloud: Cloud, agent: CloudAgentRecord, run: CloudRunRecord) -> None:
    """Do everything a run does; an exception ends it in ERROR."""
    try:
        end = await _pass_statuses(cloud, agent, run)
    except Exception as error:
        run.error = {"code": "internal_error", "message": f"the simulator failed: {error}"}
        end = "ERROR"
    if end is not None:
        finish(agent, run, end)
        await notify(cloud, agent, run)


def finish(agent: CloudAgentRecord, run: CloudRunRecord, status: str) -> None:
    """End a run for good."""
    run.updated = agent.updated = time.time()
    run.duration_ms = int((run.updated - run.created) * 1000)
    _add_usage(run)
    if status == "FINISHED":
        run.result = compose_reply(run)
        agent.messages.append({"id": str(uuid.uuid4()), "type": "assistant_message", "text": run.result})
        tokens = {name: count for name, count in run.usage.items() if name != "totalTokens"}
        run.feed.add(("interaction_update", {"type": "turn-ended", "usage": tokens}))
    elif status == "ERROR" and run.error is None and not run.play.entry.has("error_bare"):
        run.error = run.play.entry.error or {"code": "agent_error", "message": "The agent failed."}
    run.feed.set_status(status)
    result = {"runId": run.id, "status": status, "durationMs": run.duration_ms}
    optional = {"text": run.result, "git": agent.describe_git()}
    result |= {name: value for name, value in optional.items() if value is not None}
    run.feed.add(("result", result), ("done", {}))
    run.feed.close()


def compose_reply(run: CloudRunRecord) -> str:
    """Return the agent's last message."""
    text = run.play.entry.say
    return run.play.fill(text) if text is not None else f"Done: {run.prompt[:200]}"


async def _pass_statuses(cloud: Cloud, agent: CloudAgentRecord, run: CloudRunRecord) -> str | None:
    """Pass through the statuses; returns the terminal one, or None if the run does not end."""
    for status in _list_statuses(run):
        if status in TERMINAL:
            return status
        run.feed.set_status(status)
        run.updated = time.time()
        if status == "RUNNING":
            await _act(cloud, agent, run)
        else:
            own = run.play.entry.create_delay
            await asyncio.sleep(cloud.script.create_delay if own is None else own)
    return None


def _list_statuses(run: CloudRunRecord) -> Sequence[str]:
    for fault, life in _LIVES.items():
        if run.play.entry.has(fault):
            return life
    return run.play.entry.statuses or ["CREATING", "RUNNING", "FINISHED"]


async def _act(cloud: Cloud, agent: CloudAgentRecord, run: CloudRunRecord) -> None:
    entry = run.play.entry
    change = Change({}, [], "") if run.plans else _plan_change(run)
    think(run.feed, run.play.fill(entry.thinking))
    use_tools(run.feed, [*entry.tools, *_list_plans(run)], change)
    if entry.push == "early":
        await _push(cloud, agent, run, change)
    await asyncio.sleep(cloud.script.delay if entry.delay is None else entry.delay)
    say(run.feed, compose_reply(run))
    if entry.hold:
        await run.released.wait()
    now = time.time()
    left = {_LOG: _LOG_TEXT} if entry.artifacts is None and not run.plans else entry.artifacts or {}
    for path, content in left.items():
        path = run.play.fill(path)
        agent.artifacts[path.removeprefix("artifacts/")] = (run.play.fill(content).encode(), now)
    if entry.push == "end":
        await _push(cloud, agent, run, change)


_LOG, _LOG_TEXT = "run-{turn}.log", "{prompt}\n"
"""What a run leaves beside its commit, unless its script says otherwise."""


def _list_plans(run: CloudRunRecord) -> list[dict[str, Any]]:
    """Return the call that submits the plan of a run in plan mode, unless its script has one."""
    if not run.plans or any(tool.get("type") == "createPlan" for tool in run.play.entry.tools):
        return []
    plan = {"plan": compose_reply(run), "name": make_slug(run.prompt), "todos": []}
    return [{"type": "createPlan", "name": "create_plan", "args": plan, "result": {}}]


def _plan_change(run: CloudRunRecord) -> Change:
    play = run.play
    written = play.entry.write
    if written is None and not play.entry.delete:
        written = {"notes/{slug}-{turn}.md": "# {slug}\n\n{prompt}\n"}
    files = {play.fill(path): play.fill(text).encode() for path, text in (written or {}).items()}
    title = (run.prompt.strip().splitlines() or ["Work"])[0][:72]
    return Change(files, [play.fill(path) for path in play.entry.delete], f"{title}\n")


async def _push(cloud: Cloud, agent: CloudAgentRecord, run: CloudRunRecord, change: Change) -> None:
    if run.plans or not agent.checkouts or _PUSH_NOTHING & set(run.play.entry.faults):
        return
    checkout = agent.checkouts[0]
    if await _push_commit(cloud, agent, checkout, run, change):
        _report(cloud, agent, checkout, run)
    if run.play.entry.has("branch_deleted"):
        await checkout.remote.delete(checkout.branch)


async def _push_commit(
    cloud: Cloud, agent: CloudAgentRecord, checkout: Checkout, run: CloudRunRecord, change: Change
) -> bool:
    """Push to the branch, or to another one if a new branch turns out to be taken."""
    while True:
        also = [f"{checkout.branch}-b"] if run.play.entry.has("several_branches") else []
        try:
            commit = await checkout.remote.push(
                checkout.branch, checkout.base, change, new=checkout.new_branch, also=also
            )
        except BranchTaken:
            checkout.branch = cloud.new_branch(agent.name)
            continue
        if commit is not None:
            checkout.base, checkout.new_branch = commit, False
        return commit is not None


def _report(cloud: Cloud, agent: CloudAgentRecord, checkout: Checkout, run: CloudRunRecord) -> None:
    """Record what was pushed, and open a pull request if requested."""
    names: list[str | None] = [checkout.branch]
    if run.play.entry.has("unnamed_branch"):
        names = [None]
    if run.play.entry.has("several_branches"):
        names.append(f"{checkout.branch}-b")
    checkout.pushed += [name for name in names if name not in checkout.pushed]
    if agent.auto_pr and checkout.pr is None:
        checkout.pr = f"https://{checkout.url}/pull/{len(cloud.pulls) + 1}"
        cloud.pulls[checkout.pr] = checkout


def _add_usage(run: CloudRunRecord) -> None:
    entry = run.play.entry
    usage: dict[str, int] = dict(entry.usage or {})
    if entry.usage is None:
        usage = {
            "inputTokens": 1000 + len(run.prompt) // 4,
            "outputTokens": 100 + len(compose_reply(run)) // 4,
        }
    run.usage = NO_USAGE | usage
    run.usage["totalTokens"] = usage.get("totalTokens", sum(usage.values()))
    tokens = run.usage["totalTokens"]
    run.cost = entry.cost or {"rawCostCents": tokens / 1000, "chargedCents": tokens / 1000}


class WantedRepository(Struct, frozen=True):
    """A repository to work in, named by its address or by a pull request."""

    request: dict[str, Any]
    url: str | None
    ref: str | None = None
    pull: str | None = None
    branch: str | None = None
    """The name of the new branch, which can be chosen in v0 only."""
    on_current: bool = False


class CloudLaunchOrder(Struct, frozen=True):
    """A launch, in terms that both versions share."""

    prompt: str
    repos: list[WantedRepository]
    request: dict[str, Any]
    name: str | None = None
    agent_id: str | None = None
    auto_pr: bool = False
    webhook: WebhookBodyV0 | None = None
    model: str | None = None
    plans: bool = False


async def launch(
    cloud: Cloud, order: CloudLaunchOrder
) -> tuple[CloudAgentRecord, CloudRunRecord, asyncio.Task[None]]:
    """Add an agent and start its first run."""
    check_model(cloud, order.model)
    name = order.name or (order.prompt.strip().splitlines() or ["Agent"])[0][:60]
    checkouts = [await _checkout(cloud, wanted, name) for wanted in order.repos]
    # No await from here on, so that of two launches with the same id only one succeeds.
    if order.agent_id in cloud.agents:
        raise CloudRefusal("agent_id_conflict")
    agent_id = order.agent_id or f"bc-{uuid.uuid4()}"
    number = len(cloud.agents) + 1
    agent = CloudAgentRecord(agent_id, number, name, order.request, checkouts, order.webhook, order.auto_pr)
    run, task = start_run(cloud, agent, order.prompt, order.plans)
    return agent, run, task


def follow_up(
    cloud: Cloud, agent: CloudAgentRecord, prompt: str, plans: bool = False
) -> tuple[CloudRunRecord, asyncio.Task[None]]:
    """Start another run of an agent that is free."""
    if agent.archived:
        raise CloudRefusal("agent_archived")
    if agent.latest.is_active:
        raise CloudRefusal("agent_busy")
    return start_run(cloud, agent, prompt, plans)


def start_run(
    cloud: Cloud, agent: CloudAgentRecord, prompt: str, plans: bool
) -> tuple[CloudRunRecord, asyncio.Task[None]]:
    """Add a run and start it."""
    if cloud.script.active_limit and cloud.count_active() >= cloud.script.active_limit:
        raise CloudRefusal("rate_limit_exceeded", "Too many active agents.")
    number = len(agent.runs) + 1
    play = pick_play(cloud.deck, CloudEntry(), prompt, number, agent.number)
    run_id = f"run-{uuid.uuid4()}"
    run = CloudRunRecord(run_id, number, prompt, play, Feed(run_id), plans)
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
