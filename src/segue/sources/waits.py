"""What a text says about the order of tasks: "depends on T012", "after T003", "blocked by Task 2"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from segue.domain.graph import Dependency, WaitKind, find_cycles
from segue.domain.task import Notice, Task

_ID = r"(?:T[0-9]{1,6}[a-z]?|Tasks?\s+#?[0-9]+(?:\.[0-9]+)*)(?!\w)"
_MORE = r"(?:T[0-9]{1,6}[a-z]?|(?:Tasks?\s+)?#?[0-9]+(?:\.[0-9]+)*)(?!\w)"
_IDS = rf"{_ID}(?:\s*(?:,|&|\band\b)\s*(?:and\s+)?{_MORE})*"
_RELATION = r"(?:depend(?:s|ing)?\s+(?:up)?on|after|blocked\s+by)"
_WAITS = re.compile(rf"\b{_RELATION}\s*:?[\s*_`(]*({_IDS})", re.IGNORECASE)
_STATED = re.compile(rf"({_IDS})[\s*_`]*(?:\w+\s+)?{_RELATION}[\s*_`(]*({_IDS})", re.IGNORECASE)
_EACH = re.compile(_MORE, re.IGNORECASE)
_MOST = 2000
"""Characters of a line that are looked through."""


class TaskNames:
    """The tasks of a file by what texts call them: `T012`, `Task 2`."""

    def __init__(self, named: Mapping[str, str]) -> None:
        """`named` are the ids of the tasks by their keys; the first task of a name counts."""
        self._keys: dict[str, str] = {}
        for key, name in named.items():
            self._keys.setdefault(_name(name), key)

    def find(self, text: str) -> tuple[str, ...]:
        """Return the keys of the tasks that a list of ids names."""
        keys = (self._keys.get(_name(one)) for one in _EACH.findall(text))
        return tuple(dict.fromkeys(key for key in keys if key is not None))


def find_waits(text: str, own: str, names: TaskNames) -> tuple[Dependency, ...]:
    """Return what a task says that it waits for."""
    found = (names.find(words) for line in text.split("\n") for words in _WAITS.findall(line[:_MOST]))
    keys = tuple(dict.fromkeys(key for keys in found for key in keys if key != own))
    return (Dependency(keys, WaitKind.STATED, "it says so"),) if keys else ()


def find_stated(line: str, number: int, names: TaskNames) -> Iterator[tuple[str, Dependency]]:
    """Yield what a line about tasks says of each, such as "T003 depends on T001"."""
    for after, before in _STATED.findall(line[:_MOST]):
        for key in names.find(after):
            keys = tuple(other for other in names.find(before) if other != key)
            if keys:
                yield key, Dependency(keys, WaitKind.STATED, f"line {number} says so")


def note_waits(tasks: Sequence[Task]) -> Iterable[Notice]:
    """Name tasks that wait for each other, and those that wait for later ones."""
    waits = {task.key: task.depends_on for task in tasks}
    lines = {task.key: task.line for task in tasks}
    place = {key: number for number, key in enumerate(waits)}
    cycles = find_cycles(waits)
    for cycle in cycles:
        text = f"These tasks wait for each other: {' → '.join((*cycle, cycle[0]))}."
        yield Notice(lines[cycle[0]], text)
    known = {key for cycle in cycles for key in cycle}
    for task in tasks:
        stated = [key for wait in task.depends_on if wait.kind is WaitKind.STATED for key in wait.keys]
        later = [key for key in stated if place.get(key, -1) > place[task.key]]
        if later and task.key not in known:
            text = f"{task.key} waits for {', '.join(later)}, but comes first"
            text += "; one task at a time is run in this order."
            yield Notice(lines[task.key], text)


def _name(text: str) -> str:
    """`Task 02`, `task 2` and `2` are the same, and so are `T002` and `T2`."""
    words = re.sub(r"^(?:tasks?\s*#?|t)", "", text.strip().lower().lstrip("#"))
    return ".".join(part.lstrip("0") or "0" for part in words.split("."))
