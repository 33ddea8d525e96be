"""Dependencies: which tasks wait for which, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from segue.domain.errors import UsageError


class WaitKind(StrEnum):
    """What makes a task wait."""

    STATED = "stated"
    """Somebody wrote it down."""
    PHASE = "phase"
    """Its phase or story comes after another one."""
    ORDER = "order"
    """It merely comes after them: it is not blocked when they fail."""
    PATHS = "paths"
    """Both would change the same files: it is not blocked when they fail."""

    @property
    def blocks(self) -> bool:
        """Whether a task that waits in this way cannot be done without the others."""
        return self in (WaitKind.STATED, WaitKind.PHASE)


class Dependency(Struct, frozen=True):
    """Tasks that must be done before another one, and why.

    Tasks that wait for the same ones, such as those of a phase, share one tuple of keys: whoever goes through
    all dependencies looks at it once, so that thousands of tasks that wait for thousands cost little.
    """

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
        if not dependency.kind.blocks:
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
    return _walk(waits)[1]


def sort_tasks(waits: Waits) -> list[str]:
    """Return the tasks in their order, but each after those that it depends on."""
    return _walk(waits)[0]


def refuse_cycles(waits: Waits, pending: Collection[str]) -> None:
    """Raise if tasks that are still to be done wait for each other."""
    still = {key: dependencies for key, dependencies in waits.items() if key in pending}
    cycles = find_cycles(still)
    if cycles:
        first = cycles[0]
        more = f" So do those of {len(cycles) - 1} more such circles." if len(cycles) > 1 else ""
        why = [_why(still, key, after) for key, after in zip(first, (*first[1:], first[0]), strict=True)]
        raise UsageError(
            f"{describe_cycle(first)}.{more}\n" + "\n".join(f"  {line}" for line in dict.fromkeys(why)),
            kept="Nothing was started.",
            hint="Remove one of these dependencies, or use --jobs 1: one task"
            " at a time is run in the order of the source.",
        )


def describe_cycle(cycle: Sequence[str]) -> str:
    """Return a cycle in words."""
    return f"{' → '.join((*cycle, cycle[0]))} wait for each other"


def _why(waits: Waits, key: str, after: str) -> str:
    found = next(one for one in waits[key] if one.kind.blocks and after in one.keys)
    return f"{key} waits for {after}: {found.why}"


def _walk(waits: Waits) -> tuple[list[str], list[tuple[str, ...]]]:
    """Go to each task through what it needs; return the tasks as they are left, and the cycles.

    A tuple of keys is a place of its own on the way, so that one that many tasks share is entered once.
    """
    place = {key: number for number, key in enumerate(waits)}
    found: dict[frozenset[str], tuple[str, ...]] = {}
    order: list[str] = []
    left: dict[str | int, bool] = {}  # False: on the path
    for start in waits:
        if start in left:
            continue
        left[start] = False
        path: list[str | int] = [start]
        ways = [_ways_from(start, waits)]
        while path:
            after = next(ways[-1], None)
            node = id(after) if isinstance(after, tuple) else after
            if after is None or node is None:
                ways.pop()
                node = path.pop()
                left[node] = True
                if isinstance(node, str):
                    order.append(node)
            elif node not in left:
                left[node] = False
                path.append(node)
                ways.append(_ways_from(after, waits))
            elif not left[node]:
                cycle = [one for one in path[path.index(node) :] if isinstance(one, str)]
                first = min(range(len(cycle)), key=lambda n: place[cycle[n]])
                found.setdefault(frozenset(cycle), (*cycle[first:], *cycle[:first]))
    return order, list(found.values())


def _ways_from(node: str | tuple[str, ...], waits: Waits) -> Iterator[str | tuple[str, ...]]:
    if isinstance(node, tuple):
        return (key for key in node if key in waits)
    return (one.keys for one in waits[node] if one.kind.blocks)
