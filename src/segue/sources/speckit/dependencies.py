"""Which tasks of a tasks.md wait for which: what it says, its phases and stories, and the label [P]."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from segue.domain.graph import Dependency, WaitKind
from segue.sources.markdown.lines import Line, heading
from segue.sources.markdown.relations import TaskNames, read_relations, wait_by_text
from segue.sources.speckit.choose import PHASE
from segue.sources.speckit.spec import stories_in
from segue.sources.speckit.tasks import BoxTask

_ABOUT_ORDER = re.compile(r"dependenc|dependent|execution order|ordering", re.IGNORECASE)
_STORY = r"(?:US-?|[Uu]ser [Ss]tory\s*)[0-9]{1,3}"
_STORY_WAITS = re.compile(
    rf"({_STORY})\b[^.;\n]{{0,60}}?\b(?i:depends on|requires|waits for|after)\s+\**({_STORY})"
)
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)*")


def find_waits(tasks: Sequence[BoxTask], lines: Sequence[Line]) -> dict[str, tuple[Dependency, ...]]:
    """Return what each task waits for, by its key."""
    names = TaskNames.of({task.key: task.id for task in tasks})
    waits: dict[str, list[Dependency]] = {
        task.key: list(wait_by_text(task.text, task.key, names)) for task in tasks
    }
    own = {task.line + n for task in tasks for n in range(task.text.count("\n") + 1)}
    for line in _lines_about_order(lines):
        if line.number not in own:
            _wait_by_line(line, tasks, waits, names)
    for key, dependency in _phases(tasks):
        waits[key].append(dependency)
    for key, dependency in _order(tasks):
        known = {other for wait in waits[key] if wait.kind is WaitKind.STATED for other in wait.keys}
        if not known.issuperset(dependency.keys):
            waits[key].append(dependency)
    return {key: tuple(found) for key, found in waits.items()}


def _wait_by_line(
    line: Line, tasks: Sequence[BoxTask], waits: dict[str, list[Dependency]], names: TaskNames
) -> None:
    """Add what a line about the order of tasks says; all who wait for the same tasks share their keys."""
    why = f"line {line.number} says so"
    for after, before in dict.fromkeys(_relations(line.text, names)):
        stated, known = Dependency(before, WaitKind.STATED, why), frozenset(before)
        for key in after:
            if key not in known:
                waits[key].append(stated)
            elif others := tuple(other for other in before if other != key):
                waits[key].append(Dependency(others, WaitKind.STATED, why))
    for story, first in dict.fromkeys(_STORY_WAITS.findall(line.text)):
        _wait_for_story(tasks, waits, stories_in(story)[0], stories_in(first)[0], line.number)


def _relations(line: str, names: TaskNames) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    for after, before in read_relations(line, names):
        if after and before:
            yield tuple(after), tuple(before)


def _lines_about_order(lines: Sequence[Line]) -> Iterator[Line]:
    level = 0
    for line in lines:
        if head := heading(line):
            if not level or head.level <= level:
                level = head.level if _ABOUT_ORDER.search(head.text) and not PHASE.search(head.text) else 0
        elif level and not line.block:
            yield line


def _wait_for_story(
    tasks: Sequence[BoxTask], waits: dict[str, list[Dependency]], story: str, first: str, line: int
) -> None:
    before = tuple(task.key for task in tasks if first in task.stories and story not in task.stories)
    if not before:
        return
    dependency = Dependency(before, WaitKind.PHASE, f"story {story} waits for {first}: line {line} says so")
    for task in tasks:
        if story in task.stories and first not in task.stories:
            waits[task.key].append(dependency)


def _phases(tasks: Sequence[BoxTask]) -> Iterator[tuple[str, Dependency]]:
    """A phase waits for the one before it; phases of stories do not wait for each other."""
    members: dict[str, list[BoxTask]] = {}
    for task in tasks:
        if PHASE.search(task.phase):
            members.setdefault(task.phase, []).append(task)
    before: list[str] = []
    stories: list[str] = []
    for phase, inside in members.items():
        needed = before[-1:] if stories_in(phase) else (stories or before[-1:])
        for other in needed:
            keys = tuple(task.key for task in members[other])
            dependency = Dependency(keys, WaitKind.PHASE, f"{_call(phase)} waits for {_call(other)}")
            yield from ((task.key, dependency) for task in inside)
        if stories_in(phase):
            stories.append(phase)
        else:
            before.append(phase)
            stories = []


def _call(phase: str) -> str:
    number = _NUMBER.search(phase)
    return f"phase {number[0]}" if number else phase


def _order(tasks: Sequence[BoxTask]) -> Iterator[tuple[str, Dependency]]:
    """Tasks labelled [P] wait only for those without the label that precede them in their phase.

    A file without any [P] does not tell which tasks go side by side, so its order says nothing.
    """
    if not any("P" in task.labels for task in tasks):
        return
    group: list[str] = []
    before: tuple[str, ...] = ()
    parallel, phase = False, None
    for task in tasks:
        is_parallel = "P" in task.labels
        if task.phase != phase:
            group, before, phase = [], (), task.phase
        elif not (parallel and is_parallel):
            group, before = [], tuple(group)
        if before:
            why = "it comes after them" if len(before) > 1 else f"it comes after {before[0]}"
            yield (
                task.key,
                Dependency(before, WaitKind.ORDER, why + ("" if is_parallel else " and has no [P]")),
            )
        group.append(task.key)
        parallel = is_parallel
