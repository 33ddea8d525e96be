"""Attempt a phase until it holds: one counter for every kind of retry, fallbacks, and waiting for limits."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from segue.domain.event import EventType
from segue.domain.failure import FailureKind
from segue.domain.role import ROLE_OF
from segue.domain.task import Task
from segue.domain.verdict import Action
from segue.flow.context import MAX_PARKS, Kit, Player
from segue.flow.launch import folder_of
from segue.ports import StepResult

_UNABLE = {FailureKind.USAGE_LIMIT, FailureKind.RATE_LIMIT, FailureKind.AUTH, FailureKind.OUTAGE}
_UNABLE |= {FailureKind.NOT_STARTED}
"""Failures for which an agent or its service is to blame, not the work: another one may do better."""

_REST = 900.0
"""Seconds for which an agent is passed over when it did not say until when it cannot work."""


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt: its number, who makes it, and what was wrong with the last one."""

    number: int
    player: Player
    feedback: str | None


Attempt = Callable[[Try], Awaitable[StepResult]]


async def attempts(
    kit: Kit, task: Task, phase: str, attempt: Attempt, first: int = 1, least: int = 1
) -> tuple[int, StepResult]:
    """Attempt until one holds or no more are allowed; returns the last number used and its result.

    At least `least` attempts are allowed, whatever the policy says.
    """
    counted = parks = 0
    number, feedback = first, None
    cast = kit.cast[ROLE_OF[phase]]
    while True:
        player = _player(kit, cast, f"{folder_of(task)}/{phase}/{number}")
        result = await attempt(Try(number, player, feedback))
        failure: dict[str, Any] | None = result.output["failure"]
        if failure is None:
            return number, result
        unable = failure["kind"] in _UNABLE
        if unable:
            _rest(kit, player, failure)
        park = f"{folder_of(task)}/park/{phase}/{number}"
        # Who has waited before a crash waits on: what was decided then must not be decided anew.
        waits = unable and kit.journal.state(park) is not None
        other = _other(kit, cast, f"{folder_of(task)}/{phase}/{number + 1}", player) if unable else None
        until = _first_end(kit, cast) if unable else None
        if other is not None and not waits:
            await _hand_over(kit, task, phase, number, player, other, failure)
        elif until is not None or waits:
            parks += 1
            if parks > MAX_PARKS:
                return number, result
            await _park(kit, task, park, until or 0)
        elif result.output["verdict"]["action"] == Action.STOP or failure["kind"] == FailureKind.USAGE_LIMIT:
            return number, result
        elif failure["kind"] != FailureKind.INTERRUPTED:
            counted += 1
            if counted >= max(kit.policy.attempts, least):
                return number, result
            feedback = failure["message"]
        number += 1


def _player(kit: Kit, cast: Sequence[Player], key: str) -> Player:
    """Who makes this attempt: whoever began it, if it was begun; else the first who can."""
    best = _begun_by(kit, cast, key) or _fresh(kit, cast)
    return best or min(cast, key=lambda player: kit.spent.resting[player.name])


def _other(kit: Kit, cast: Sequence[Player], key: str, player: Player) -> Player | None:
    """Who takes over with the next attempt, if anybody else does."""
    best = _begun_by(kit, cast, key) or _fresh(kit, cast)
    return None if best is player else best


def _begun_by(kit: Kit, cast: Sequence[Player], key: str) -> Player | None:
    for step in kit.journal.steps(key):
        for player in cast:
            if (step.key, step.agent, step.model) == (key, player.agent.name, player.model):
                return player
    return None


def _fresh(kit: Kit, cast: Sequence[Player]) -> Player | None:
    now = time.time()
    return next((player for player in cast if kit.spent.resting.get(player.name, 0) <= now), None)


def _rest(kit: Kit, player: Player, failure: dict[str, Any]) -> None:
    forever = failure["kind"] in (FailureKind.AUTH, FailureKind.NOT_STARTED)
    until = float("inf") if forever else failure["until"] or time.time() + _REST
    kit.spent.resting[player.name] = until
    if failure["until"] is not None:
        kit.spent.limited[player.name] = failure["until"]


def _first_end(kit: Kit, cast: Sequence[Player]) -> float | None:
    """When the first of those who said until when they cannot work can work again; None: nobody did."""
    told = [kit.spent.limited[player.name] for player in cast if player.name in kit.spent.limited]
    return min(told, default=None)


async def _hand_over(
    kit: Kit, task: Task, phase: str, number: int, player: Player, other: Player, failure: dict[str, Any]
) -> None:
    """Say who takes over, once."""
    if kit.journal.state(f"{folder_of(task)}/{phase}/{number + 1}") is None:
        names = {"agent": player.name, "next": other.name}
        why = {"kind": failure["kind"], "reason": failure["message"], "until": failure["until"]}
        await kit.emit(EventType.FALLBACK, task=task.key, phase=phase, **names, **why)


async def _park(kit: Kit, task: Task, key: str, until: float) -> None:
    """Wait, durably, until the first of the limits ends."""
    if until > time.time():
        await kit.emit(EventType.RUN_PARKED, task=task.key, until=until)
    await kit.journal.sleep(key, until)
