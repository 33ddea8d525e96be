"""Finds what a text says about the order of tasks: "depends on T012", "(after T003, T004)", "T001 → T002"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct

from segue.domain.graph import Dependency, WaitKind, find_cycles
from segue.domain.task import Notice, Task

_ID = (
    r"(?:T(?:ASK)?-?[0-9]{1,6}(?:\.[0-9]{1,3})*[A-Za-z]?(?![\w%])"
    r"|[Tt]asks?\s+#?[0-9][0-9.]*[a-z]?(?!\w))"
)
_NUMBER = r"[0-9]+(?:\.[0-9]+)*[a-z]?(?![\w%.])"
_AND = r"(?:,\s*(?:and\s+)?|(?:and|to|through)\s+|(?:[&+/–—-]|\.\.)\s*)"
_IDS = rf"[\s*_`:：(\[]*({_ID}[\])*_`]*(?:\s*{_AND}(?:{_ID}|{_NUMBER})[\])*_`]*)*)"
_AFTER = re.compile(
    r"(?i:\b(?:depend(?:s|ent|encies|ing)?(?:\s+(?:up)?on)?|requires?|after|blocked by|needs|waits? for"
    rf"|prerequisites?|follow(?:s|ing)|once)){_IDS}"
)
_BEFORE = re.compile(
    rf"{_IDS}[\s*_`)]*(?i:\b(?:(?:un)?blocks?|precedes?|before"
    rf"|(?:must|should|has to|have to)[^.;\n]{{0,40}}before)\b)[^.;\nT]{{0,40}}?{_IDS}"
)
_RELATION = re.compile(
    rf"{_IDS}[\s*_`)]*(?i:\b(?:depends? (?:up)?on|requires?|needs|waits? for"
    rf"|(?:(?:comes?|runs?|is|are) )?(?:after|blocked by)))\b[^.;\nT]{{0,40}}?{_IDS}"
)
_READ_LINES, _READ_CHARS = 40, 2000
"""How much of a task's text, and of each line, is looked through."""
_ARROW = re.compile(r"\s*(?:→|⟶|-+>|=+>)\s*")
_ATOM = re.compile(rf"{_ID}|{_NUMBER}")
_RANGE = re.compile(r"\s*[\])*_`]*\s*(?:[-–—]|\.\.|\bto\b|\bthrough\b)\s*[\[(*_`]*\s*$")


class TaskNames(Struct, frozen=True):
    """The tasks of a file by what texts call them: `T012`, `Task 2`."""

    order: Sequence[str]
    place: Mapping[str, int]
    keys: Mapping[str, str]

    @classmethod
    def of(cls, named: Mapping[str, str]) -> TaskNames:
        """Return the names of tasks, given by their keys in order; the first task of a name counts."""
        keys: dict[str, str] = {}
        for key, name in named.items():
            keys.setdefault(_name(name), key)
        return cls(tuple(named), {key: number for number, key in enumerate(named)}, keys)


def wait_by_text(text: str, own: str, names: TaskNames) -> Iterator[Dependency]:
    """Yield what a task says that it waits for."""
    lines = [line for line in text.split("\n", _READ_LINES)[:_READ_LINES] if "T" in line or "ask" in line]
    said = (found[1] for line in lines for found in _AFTER.finditer(line[:_READ_CHARS]))
    keys = [key for words in said for key in read_ids(words, names) if key != own]
    if keys:
        yield Dependency(tuple(dict.fromkeys(keys)), WaitKind.STATED, "it says so")


def read_relations(line: str, names: TaskNames) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """Yield who waits for whom, from a line about tasks such as "T001 blocks T002" or "T003 → T004"."""
    line = line[:_READ_CHARS]
    parts = _ARROW.split(line)
    if len(parts) > 1:
        found = [_ids_at_end(parts[0], names), *(_ids_at_start(part, names) for part in parts[1:])]
        yield from ((after, before) for before, after in pairwise(found) if before and after)
        return
    for relation in _BEFORE.finditer(line):
        yield read_ids(relation[2], names), read_ids(relation[1], names)
    for relation in _RELATION.finditer(line):
        yield read_ids(relation[1], names), read_ids(relation[2], names)


def note_waits(tasks: Sequence[Task]) -> Iterator[Notice]:
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
        later = [key for key in stated if place[key] > place[task.key]]
        if later and task.key not in known:
            text = f"{task.key} waits for {', '.join(later)}, but comes first"
            text += "; one task at a time is run in this order."
            yield Notice(lines[task.key], text)


def read_ids(text: str, names: TaskNames) -> list[str]:
    """Return the keys of all tasks that a list or a range of ids names."""
    order, place = names.order, names.place
    keys: list[str] = []
    last, end = "", 0
    for found in _ATOM.finditer(text):
        key = names.keys.get(_name(found[0]))
        if key is not None and last and _RANGE.match(text[end : found.start()]) and place[last] < place[key]:
            keys += order[place[last] + 1 : place[key] + 1]
        elif key is not None:
            keys.append(key)
        last, end = key or "", found.end()
    return list(dict.fromkeys(keys))


def _name(text: str) -> str:
    """`Task 02`, `task 2` and `2` are the same, `T002` and `T2` are."""
    words = (
        text.split()[-1].lstrip("#").rstrip(".").upper().removeprefix("TASK").removeprefix("T").lstrip("-")
    )
    return ".".join(part.lstrip("0") or "0" for part in words.split("."))


def _ids_at_end(text: str, names: TaskNames) -> list[str]:
    found = list(re.finditer(_IDS, text))
    return read_ids(found[-1][1], names) if found and not re.search(r"\w", text[found[-1].end() :]) else []


def _ids_at_start(text: str, names: TaskNames) -> list[str]:
    found = re.match(_IDS, text)
    return read_ids(found[1], names) if found else []
