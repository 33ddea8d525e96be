"""Which tasks wait for which, as text, as a Mermaid diagram and as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from segue.domain.graph import Dependency, WaitKind, find_cycles
from segue.domain.task import Task

_MOST_KEYS = 6


def print_waits(tasks: Sequence[Task]) -> str:
    """Return one paragraph per task: what it waits for, and why."""
    return "\n".join(line for task in tasks for line in _describe(task))


def graph_data(tasks: Sequence[Task]) -> dict[str, Any]:
    """Return the graph for programs."""
    return {
        "tasks": [
            {
                "key": task.key,
                "title": task.title,
                "status": task.status,
                "phase": task.phase or None,
                "waits_for": [
                    {"tasks": list(wait.keys), "kind": wait.kind, "why": wait.why} for wait in task.depends_on
                ],
            }
            for task in tasks
        ],
        "cycles": [list(cycle) for cycle in find_cycles({task.key: task.depends_on for task in tasks})],
    }


def draw_mermaid(tasks: Sequence[Task]) -> str:
    """Return a Mermaid diagram: phases as boxes, stated dependencies as arrows, mere order as dotted ones."""
    names = {task.key: f"t{number}" for number, task in enumerate(tasks)}
    phases = list(dict.fromkeys(task.phase for task in tasks))
    lines = ["graph TD"]
    for number, phase in enumerate(phases):
        inside = [f'  {names[t.key]}["{_quote(f"{t.key} {t.title}")}"]' for t in tasks if t.phase == phase]
        lines += [f'  subgraph p{number}["{_quote(phase)}"]', *inside, "  end"] if phase else inside
    arrows: dict[str, None] = {}
    place = {task.key: phases.index(task.phase) for task in tasks}
    for task in tasks:
        for wait in task.depends_on:
            arrows |= dict.fromkeys(_arrows(task, wait, names, place))
    return "\n".join([*lines, *arrows])


def _arrows(task: Task, wait: Dependency, names: dict[str, str], place: dict[str, int]) -> Iterator[str]:
    if wait.kind is WaitKind.PHASE and task.phase:
        for other in dict.fromkeys(place[key] for key in wait.keys):
            yield f"  p{other} ==> p{place[task.key]}"
        return
    for key in wait.keys:
        yield f"  {names[key]} {'-.->' if wait.kind is WaitKind.ORDER else '-->'} {names[task.key]}"


def _describe(task: Task) -> Iterator[str]:
    yield f"{task.key} {task.title} ({task.status})"
    for wait in task.depends_on:
        more = f" and {len(wait.keys) - _MOST_KEYS} more" if len(wait.keys) > _MOST_KEYS else ""
        yield f"  waits for {', '.join(wait.keys[:_MOST_KEYS])}{more}: {wait.why}"


def _quote(text: str) -> str:
    return text.replace('"', "'").replace("#", "").replace("`", "'")
