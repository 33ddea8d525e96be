"""Dependencies: which tasks wait for which, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush

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

    The latter block only what is stated to need them, not a whole phase.
    """
    for wait in waits:
        if not wait.kind.blocks or not (failed or asked):
            continue
        stated = wait.kind is WaitKind.STATED
        bad = tuple(key for key in wait.keys if key in failed or (stated and key in asked))
        if bad:
            return Blocked(bad, wait.why)
    return None


def find_cycles(waits: Waits) -> list[tuple[str, ...]]:
    """Return tasks that wait for each other, beginning with the first; no task is in two cycles."""
    place = {key: number for number, key in enumerate(waits)}
    graph, cycles = _needs(waits), list[tuple[str, ...]]()
    while True:
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            cycle = error.args[1][:0:-1]  # graphlib names what is needed before what needs it
            first = cycle.index(min(cycle, key=place.__getitem__))
            cycles.append((*cycle[first:], *cycle[:first]))
            graph = {key: needs - {*cycle} for key, needs in graph.items() if key not in cycle}
        else:
            return sorted(cycles, key=lambda cycle: place[cycle[0]])


def sort_tasks(waits: Waits) -> list[str]:
    """Return the tasks in their order, but each after those that it depends on."""
    keys, graph = list(waits), _needs(waits)
    for cycle in find_cycles(waits):
        for key in cycle:
            graph[key] -= {*cycle}
    place = {key: number for number, key in enumerate(keys)}
    sorter = TopologicalSorter(graph)
    sorter.prepare()
    order: list[str] = []
    free = [place[key] for key in sorter.get_ready()]
    heapify(free)
    while free:
        order.append(keys[heappop(free)])
        sorter.done(order[-1])
        for key in sorter.get_ready():
            heappush(free, place[key])
    return order


def refuse_cycles(waits: Waits, pending: Collection[str]) -> None:
    """Raise if tasks that are still to be done wait for each other."""
    still = {key: dependencies for key, dependencies in waits.items() if key in pending}
    cycles = find_cycles(still)
    if not cycles:
        return
    first = cycles[0]
    more = f" So do those of {len(cycles) - 1} more such circles." if len(cycles) > 1 else ""
    why = dict.fromkeys(_explain(still, first))
    raise UsageError(
        f"{describe_cycle(first)}.{more}\n" + "\n".join(f"  {line}" for line in why),
        kept="Nothing was started.",
        hint="Remove one of these dependencies, or use --jobs 1: one task"
        " at a time is run in the order of the source.",
    )


def describe_cycle(cycle: Sequence[str]) -> str:
    """Return a cycle in words."""
    return f"{' → '.join((*cycle, cycle[0]))} wait for each other"


def _explain(waits: Waits, cycle: Sequence[str]) -> Iterator[str]:
    for key, after in zip(cycle, (*cycle[1:], cycle[0]), strict=True):
        why = next(wait.why for wait in waits[key] if wait.kind.blocks and after in wait.keys)
        yield f"{key} waits for {after}: {why}"


def _needs(waits: Waits) -> dict[str, set[str]]:
    """Return the tasks that each task cannot be done without."""
    return {
        key: {other for wait in ways if wait.kind.blocks for other in wait.keys if other in waits}
        for key, ways in waits.items()
    }
