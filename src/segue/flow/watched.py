"""Run an agent to the end of its job, or until what it spends or repeats ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, nullcontext, suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from segue.domain.errors import SegueError
from segue.domain.events import AgentEnded, AgentUsage, Event
from segue.domain.outcome import Failure, FailureKind, Outcome, Usage
from segue.domain.text import LONGEST_ANSWER, is_too_long
from segue.ports import Agent

if TYPE_CHECKING:
    from segue.domain.job import Job
    from segue.flow.budgets import BudgetWatch
    from segue.flow.stuck import StuckWatch

_REREAD = 20.0
"""Seconds in which what an agent has printed is read once more."""


async def run_agent(
    agent: Agent,
    job: Job,
    emit: Callable[[Event], Awaitable[object]],
    watch: BudgetWatch | None = None,
    stuck: StuckWatch | None = None,
) -> Outcome:
    """Run a job to its end, pass on what is seen, and return how it ended.

    `watch` sees every event too, and may end the launch, unless the agent is just done; so does `stuck`.
    """
    outcome: Outcome | None = None
    used: Usage | None = None
    reached: Failure | None = None
    limit = asyncio.timeout(None)
    try:
        around = stuck.watching(limit) if stuck is not None else nullcontext()
        async with limit, aclosing(agent.run(job)) as items, around:
            async for item in items:
                if isinstance(item, Outcome):
                    outcome = item
                    continue
                await emit(item)
                used = item.count() if isinstance(item, AgentUsage) else used
                if stuck is not None:
                    await stuck.see(item)
                if watch is None or reached is not None or (reached := watch.see(item)) is None:
                    continue
                # Who reports what it used when it is done ends by itself.
                live = isinstance(item, AgentUsage) and item.live
                soon = asyncio.get_running_loop().time() + (0.0 if live else job.limits.grace)
                limit.reschedule(min(soon, limit.when() or soon))
    except TimeoutError:
        if watch is None or not limit.expired():
            raise
        reached = reached or (stuck.failure if stuck is not None else None)
        assert reached is not None, "only they end a launch"
        outcome = await _read_again(agent, job, watch.end_with(reached))
    if outcome is None:
        failure = Failure(FailureKind.NO_RESULT, f"Agent {agent.name} ended without an outcome.")
        outcome = Outcome(failure=failure)
    if is_too_long(outcome.text):
        size = f"at most {LONGEST_ANSWER // 1024**2} MB ({LONGEST_ANSWER:,} characters) are read"
        failure = Failure(FailureKind.OUTPUT_LIMIT, f"The answer of agent {agent.name} is too long: {size}.")
        outcome = replace(outcome, text="", failure=outcome.failure or failure)
    # Who was ended tells nothing at its end: then what it told before counts.
    outcome = replace(outcome, usage=outcome.usage or used)
    is_capped = outcome.failure is not None and outcome.failure.kind is FailureKind.USAGE_LIMIT
    if watch is not None and outcome.usage is not None and is_capped:  # it may have been told the cap
        outcome = replace(outcome, failure=watch.count(outcome.usage) or outcome.failure)
    await emit(AgentEnded.of(outcome))
    return outcome


async def _read_again(agent: Agent, job: Job, ended: Outcome) -> Outcome:
    """Return how a launch was ended, with what it used: most agents tell that at their end only."""
    last = ended
    if agent.can.reports_usage and not agent.can.cloud:
        adopted = replace(job, begun=True, hear=None)
        with suppress(SegueError, TimeoutError):
            async with asyncio.timeout(_REREAD), aclosing(agent.run(adopted)) as items:
                async for item in items:
                    last = item if isinstance(item, Outcome) else last
    told = [one.usage for one in (ended, last) if one.usage is not None]
    most = max(told, key=lambda usage: usage.tokens, default=None)
    costs = [usage.cost_usd for usage in told if usage.cost_usd is not None]
    if most is not None and costs:
        most = replace(most, cost_usd=max(costs))
    return replace(ended, usage=most, exit_code=last.exit_code)
