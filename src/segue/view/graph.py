"""The graph of tasks: what each waits for, as text, as a Mermaid diagram and as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from segue.domain.amounts import list_some
from segue.domain.footprint import Footprint, find_footprint
from segue.domain.graph import Dependency, WaitKind, Waits, find_cycles
from segue.domain.task import Task
from segue.domain.waits import plan_waits

_MOST_SHOWN = 6
_ARROWS = {WaitKind.STATED: "-->", WaitKind.PHASE: "-->", WaitKind.ORDER: "-.->"}


class TaskGraph(Struct, frozen=True):
    """The tasks of a source with what they name and what they wait for."""

    tasks: tuple[Task, ...]
    footprints: Mapping[str, Footprint]
    waits: Waits

    @classmethod
    def of(
        cls,
        tasks: Sequence[Task],
        touched: Mapping[str, Sequence[str]],
        union: Sequence[str] = (),
    ) -> TaskGraph:
        """Return the graph of tasks with their kinds, as a run with several jobs goes by it."""
        footprints = {task.key: find_footprint(task, touched.get(task.key, ())) for task in tasks}
        waits = plan_waits(tasks, touched=touched, union=union)
        return cls(tuple(tasks), footprints, waits)

    @property
    def cycles(self) -> list[tuple[str, ...]]:
        """Tasks that wait for each other."""
        return find_cycles(self.waits)


def describe_graph(graph: TaskGraph) -> str:
    """Return one paragraph per task: what it names, what it waits for, and why."""
    return "\n".join(line for task in graph.tasks for line in _describe(task, graph))


def graph_data(graph: TaskGraph) -> dict[str, Any]:
    """Return the graph for programs."""
    return {
        "tasks": [
            {
                "key": task.key,
                "title": task.title,
                "status": task.status,
                "phase": task.phase or None,
                "footprint": {
                    "names": list(graph.footprints[task.key].names),
                    "refers_to": list(graph.footprints[task.key].refers),
                    "touched": list(graph.footprints[task.key].touched),
                },
                "waits_for": [
                    {"tasks": list(wait.keys), "kind": wait.kind, "why": wait.why}
                    for wait in graph.waits[task.key]
                ],
            }
            for task in graph.tasks
        ],
        "cycles": [list(cycle) for cycle in graph.cycles],
    }


def draw_mermaid(graph: TaskGraph) -> str:
    """Return a Mermaid diagram: phases as boxes, mere order as dotted arrows, collisions with reasons."""
    tasks = graph.tasks
    names = {task.key: f"t{number}" for number, task in enumerate(tasks)}
    phases = list(dict.fromkeys(task.phase for task in tasks))
    lines = ["graph TD"]
    for number, phase in enumerate(phases):
        inside = [f'  {names[t.key]}["{_quote(f"{t.key} {t.title}")}"]' for t in tasks if t.phase == phase]
        lines += [f'  subgraph p{number}["{_quote(phase)}"]', *inside, "  end"] if phase else inside
    arrows: dict[str, None] = {}
    place = {task.key: phases.index(task.phase) for task in tasks}
    for task in tasks:
        for wait in graph.waits[task.key]:
            arrows |= dict.fromkeys(_arrows(task, wait, names, place))
    return "\n".join([*lines, *arrows])


def _arrows(task: Task, wait: Dependency, names: dict[str, str], place: dict[str, int]) -> Iterator[str]:
    own = place[task.key]
    if wait.kind is WaitKind.PHASE and task.phase and all(place[key] != own for key in wait.keys):
        for other in dict.fromkeys(place[key] for key in wait.keys):
            yield f"  p{other} ==> p{own}"
        return
    arrow = _ARROWS.get(wait.kind) or f'-. "{_quote(wait.why)}" .->'
    for key in wait.keys:
        yield f"  {names[key]} {arrow} {names[task.key]}"


def _describe(task: Task, graph: TaskGraph) -> Iterator[str]:
    yield f"{task.key} {task.title} ({task.status})"
    footprint = graph.footprints[task.key]
    if footprint.names:
        yield f"  names {list_some(footprint.names, _MOST_SHOWN)}"
    if footprint.refers:
        yield f"  refers to {list_some(footprint.refers, _MOST_SHOWN)}"
    if footprint.touched:
        yield f"  touched {list_some(footprint.touched, _MOST_SHOWN)} before"
    for wait in graph.waits[task.key]:
        yield f"  waits for {list_some(wait.keys, _MOST_SHOWN)}: {wait.why}"


def _quote(text: str) -> str:
    return text.replace('"', "'").replace("#", "").replace("`", "'")
