"""Which tasks wait for which, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct


class WaitKind(StrEnum):
    """What makes a task wait."""

    STATED = "stated"
    """Somebody wrote it down."""
    PHASE = "phase"
    """Its phase or story comes after another one."""
    ORDER = "order"
    """It merely comes after tasks that are not marked as parallel: it is not blocked when they fail."""


class Dependency(Struct, frozen=True):
    """Tasks that must be done before another one, and why."""

    keys: tuple[str, ...]
    kind: WaitKind
    why: str


Waits = Mapping[str, Sequence[Dependency]]
"""What each task waits for, by its key; in the order of the tasks."""


class Blocked(Struct, frozen=True):
    """Why a task cannot begin."""

    by: tuple[str, ...]
    why: str


def find_block(
    waits: Sequence[Dependency], failed: Collection[str], asked: Collection[str]
) -> Blocked | None:
    """Return what blocks a task; `failed` tasks are not done, `asked` ones wait for a person.

    Those block only what is known to need them, not a whole phase.
    """
    for dependency in waits:
        if dependency.kind is WaitKind.ORDER:
            continue
        bad = [
            key
            for key in dependency.keys
            if key in failed or (key in asked and dependency.kind is WaitKind.STATED)
        ]
        if bad:
            return Blocked(tuple(bad), dependency.why)
    return None


def find_cycles(waits: Waits) -> list[tuple[str, ...]]:
    """Return tasks that wait for each other, each cycle once, beginning with its first task."""
    place = {key: number for number, key in enumerate(waits)}
    found: dict[frozenset[str], tuple[str, ...]] = {}
    state: dict[str, int] = {}  # 1: on the path, 2: left
    for start in waits:
        if start in state:
            continue
        path: list[str] = []
        stack: list[tuple[str, Iterator[str]]] = [(start, _next(waits, start))]
        state[start] = 1
        path.append(start)
        while stack:
            key, rest = stack[-1]
            after = next(rest, None)
            if after is None:
                state[key] = 2
                path.pop()
                stack.pop()
            elif state.get(after) == 1:
                cycle = path[path.index(after) :]
                first = min(range(len(cycle)), key=lambda n: place[cycle[n]])
                found.setdefault(frozenset(cycle), (*cycle[first:], *cycle[:first]))
            elif after not in state:
                state[after] = 1
                path.append(after)
                stack.append((after, _next(waits, after)))
    return list(found.values())


def _next(waits: Waits, key: str) -> Iterator[str]:
    for dependency in waits[key]:
        if dependency.kind is not WaitKind.ORDER:
            yield from (other for other in dependency.keys if other in waits)
