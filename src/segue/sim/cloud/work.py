"""Work on one run: its statuses, its events, its push, its end."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Sequence
from typing import Any

from segue.sim.cloud.feed import TERMINAL, say, think, use_tools
from segue.sim.cloud.objects import NO_USAGE, Checkout, CloudAgentRecord, CloudRunRecord
from segue.sim.cloud.remote import BranchTaken, Change
from segue.sim.cloud.state import Cloud
from segue.sim.cloud.webhook import notify

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
    elif status == "ERROR" and run.error is None and not run.play.has("error_bare"):
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
        if run.play.has(fault):
            return life
    return run.play.entry.statuses or ["CREATING", "RUNNING", "FINISHED"]


async def _act(cloud: Cloud, agent: CloudAgentRecord, run: CloudRunRecord) -> None:
    entry = run.play.entry
    change = _plan_change(run)
    think(run.feed, run.play.fill(entry.thinking))
    use_tools(run.feed, entry.tools, change)
    if entry.push == "early":
        await _push(cloud, agent, run, change)
    await asyncio.sleep(cloud.script.delay if entry.delay is None else entry.delay)
    say(run.feed, compose_reply(run))
    if entry.hold:
        await run.released.wait()
    now = time.time()
    for path, content in entry.artifacts.items():
        agent.artifacts[path.removeprefix("artifacts/")] = (run.play.fill(content).encode(), now)
    if entry.push == "end":
        await _push(cloud, agent, run, change)


def _plan_change(run: CloudRunRecord) -> Change:
    play = run.play
    written = play.entry.write
    if written is None and not play.entry.delete:
        written = {"notes/{slug}-{turn}.md": "# {slug}\n\n{prompt}\n"}
    files = {play.fill(path): play.fill(text).encode() for path, text in (written or {}).items()}
    title = (run.prompt.strip().splitlines() or ["Work"])[0][:72]
    return Change(files, [play.fill(path) for path in play.entry.delete], f"{title}\n")


async def _push(cloud: Cloud, agent: CloudAgentRecord, run: CloudRunRecord, change: Change) -> None:
    if not agent.checkouts or _PUSH_NOTHING & set(run.play.entry.faults):
        return
    checkout = agent.checkouts[0]
    if await _push_commit(cloud, agent, checkout, run, change):
        _report(cloud, agent, checkout, run)
    if run.play.has("branch_deleted"):
        await checkout.remote.delete(checkout.branch)


async def _push_commit(
    cloud: Cloud, agent: CloudAgentRecord, checkout: Checkout, run: CloudRunRecord, change: Change
) -> bool:
    """Push to the branch, or to another one if a new branch turns out to be taken."""
    while True:
        also = [f"{checkout.branch}-b"] if run.play.has("several_branches") else []
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
    if run.play.has("unnamed_branch"):
        names = [None]
    if run.play.has("several_branches"):
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
    run.usage["totalTokens"] = usage.get("totalTokens", _sum(usage))
    tokens = run.usage["totalTokens"]
    run.cost = entry.cost or {"rawCostCents": tokens / 1000, "chargedCents": tokens / 1000}


def _sum(usage: dict[str, Any]) -> int:
    return sum(value for name, value in usage.items() if name != "totalTokens")
