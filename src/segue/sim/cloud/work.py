"""Carries one run: its statuses, its events, its push, its end."""

from __future__ import annotations

import asyncio
import time
import uuid
from typing import Any

from segue.sim.cloud.feed import TERMINAL
from segue.sim.cloud.objects import NO_USAGE, Agent, Checkout, Run
from segue.sim.cloud.remote import BranchTaken, Change
from segue.sim.cloud.state import Cloud
from segue.sim.cloud.talk import say, think, use_tools
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

_KEEP_TO_THEMSELVES = {"no_branch", "error_bare", "expired", "hang", "unknown_status"}
"""With these faults nothing is pushed."""


async def carry(cloud: Cloud, agent: Agent, run: Run) -> None:
    """Do everything a run does; whatever goes wrong on the way ends it in ERROR."""
    try:
        end = await _live(cloud, agent, run)
    except Exception as error:
        run.error = {"code": "internal_error", "message": f"the simulator failed: {error}"}
        end = "ERROR"
    if end is not None:
        finish(agent, run, end)
        await notify(cloud, agent, run)


def finish(agent: Agent, run: Run, status: str) -> None:
    """End a run: nothing about it changes any more."""
    run.updated = agent.updated = time.time()
    run.duration_ms = int((run.updated - run.created) * 1000)
    _account(run)
    if status == "FINISHED":
        run.result = reply(run)
        agent.messages.append({"id": str(uuid.uuid4()), "type": "assistant_message", "text": run.result})
        tokens = {name: count for name, count in run.usage.items() if name != "totalTokens"}
        run.feed.say(("interaction_update", {"type": "turn-ended", "usage": tokens}))
    elif status == "ERROR" and run.error is None and not run.play.has("error_bare"):
        run.error = run.play.entry.error or {"code": "agent_error", "message": "The agent failed."}
    run.feed.turn(status)
    result = {"runId": run.id, "status": status, "durationMs": run.duration_ms}
    optional = {"text": run.result, "git": agent.git()}
    result |= {name: value for name, value in optional.items() if value is not None}
    run.feed.say(("result", result), ("done", {}))
    run.feed.close()


def reply(run: Run) -> str:
    """What the agent says at its end."""
    text = run.play.entry.say
    return run.play.fill(text) if text is not None else f"Done: {run.prompt[:200]}"


async def _live(cloud: Cloud, agent: Agent, run: Run) -> str | None:
    """Go through the statuses; gives the terminal one, or None when the run stays where it is."""
    for status in _statuses(run):
        if status in TERMINAL:
            return status
        run.feed.turn(status)
        run.updated = time.time()
        if status == "RUNNING":
            await _act(cloud, agent, run)
        else:
            own = run.play.entry.create_delay
            await asyncio.sleep(cloud.script.create_delay if own is None else own)
    return None


def _statuses(run: Run) -> list[str]:
    for fault, life in _LIVES.items():
        if run.play.has(fault):
            return life
    return run.play.entry.statuses or ["CREATING", "RUNNING", "FINISHED"]


async def _act(cloud: Cloud, agent: Agent, run: Run) -> None:
    entry = run.play.entry
    change = _change(run)
    think(run.feed, run.play.fill(entry.thinking))
    use_tools(run.feed, entry.tools, change)
    if entry.push == "early":
        await _push(cloud, agent, run, change)
    await asyncio.sleep(cloud.script.delay if entry.delay is None else entry.delay)
    say(run.feed, reply(run))
    if entry.hold:
        await run.released.wait()
    now = time.time()
    for path, content in entry.artifacts.items():
        agent.artifacts[path.removeprefix("artifacts/")] = (run.play.fill(content).encode(), now)
    if entry.push == "end":
        await _push(cloud, agent, run, change)


def _change(run: Run) -> Change:
    play = run.play
    written = play.entry.write
    if written is None and not play.entry.delete:
        written = {"notes/{slug}-{turn}.md": "# {slug}\n\n{prompt}\n"}
    files = {play.fill(path): play.fill(text).encode() for path, text in (written or {}).items()}
    title = (run.prompt.strip().splitlines() or ["Work"])[0][:72]
    return Change(files, [play.fill(path) for path in play.entry.delete], f"{title}\n")


async def _push(cloud: Cloud, agent: Agent, run: Run, change: Change) -> None:
    if not agent.checkouts or _KEEP_TO_THEMSELVES & set(run.play.entry.faults):
        return
    checkout = agent.checkouts[0]
    if await _pushed(cloud, agent, checkout, run, change):
        _report(cloud, agent, checkout, run)
    if run.play.has("branch_deleted"):
        await checkout.remote.delete(checkout.branch)


async def _pushed(cloud: Cloud, agent: Agent, checkout: Checkout, run: Run, change: Change) -> bool:
    """Push under the branch's name, or under another one when a new branch turns out to be taken."""
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


def _report(cloud: Cloud, agent: Agent, checkout: Checkout, run: Run) -> None:
    """Write down what was pushed, and open a pull request when one was asked for."""
    names: list[str | None] = [checkout.branch]
    if run.play.has("unnamed_branch"):
        names = [None]
    if run.play.has("several_branches"):
        names.append(f"{checkout.branch}-b")
    checkout.pushed += [name for name in names if name not in checkout.pushed]
    if agent.auto_pr and checkout.pr is None:
        checkout.pr = f"https://{checkout.url}/pull/{len(cloud.pulls) + 1}"
        cloud.pulls[checkout.pr] = checkout


def _account(run: Run) -> None:
    entry = run.play.entry
    usage: dict[str, int] = dict(entry.usage or {})
    if entry.usage is None:
        usage = {"inputTokens": 1000 + len(run.prompt) // 4, "outputTokens": 100 + len(reply(run)) // 4}
    run.usage = NO_USAGE | usage
    run.usage["totalTokens"] = usage.get("totalTokens", _sum(usage))
    tokens = run.usage["totalTokens"]
    run.cost = entry.cost or {"rawCostCents": tokens / 1000, "chargedCents": tokens / 1000}


def _sum(usage: dict[str, Any]) -> int:
    return sum(value for name, value in usage.items() if name != "totalTokens")
