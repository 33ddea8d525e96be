"""Attempt a phase until it holds: one counter for every kind of retry, and waiting for usage limits."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from segue.domain.event import EventType
from segue.domain.failure import FailureKind
from segue.domain.task import Task
from segue.domain.verdict import Action
from segue.flow.kit import MAX_PARKS, Kit
from segue.ports import StepResult

Attempt = Callable[[int, str | None], Awaitable[StepResult]]
"""One attempt: its number, and what was wrong with the last one."""


async def attempts(
    kit: Kit, task: Task, phase: str, attempt: Attempt, first: int = 1
) -> tuple[int, StepResult]:
    """Attempt until one holds or no more are allowed; returns the last number used and its result."""
    counted = parks = 0
    number, feedback = first - 1, None
    while True:
        number += 1
        result = await attempt(number, feedback)
        if result.ok or result.output["verdict"]["action"] == Action.STOP:
            return number, result
        failure: dict[str, Any] = result.output["failure"]
        if failure["kind"] == FailureKind.INTERRUPTED:
            continue
        limited = failure["kind"] == FailureKind.RATE_LIMIT and failure["until"] is not None
        if limited or failure["kind"] == FailureKind.USAGE_LIMIT:
            parks += 1
            if failure["until"] is None or parks > MAX_PARKS:
                return number, result
            await _park(kit, task, f"task/{task.key}/park/{phase}/{number}", failure["until"])
            continue
        counted += 1
        if counted >= kit.policy.attempts:
            return number, result
        feedback = failure["message"]


async def _park(kit: Kit, task: Task, key: str, until: float) -> None:
    """Wait, durably, until the usage limit ends."""
    if until > time.time():
        await kit.emit(EventType.RUN_PARKED, task=task.key, until=until)
    await kit.journal.sleep(key, until)
