"""Reads tasks.md: every box at the left margin, outside code and comments, is a task."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from segue.domain.graph import Dependency, WaitKind
from segue.domain.task import Notice, TaskStatus
from segue.sources.markdown import BOX, Heading, Markdown, plain, strip_blank
from segue.sources.recorded import TEXT_KEY
from segue.sources.speckit.spec import read_independent_test, stories_in
from segue.sources.waits import TaskNames, find_stated, find_waits

_BOX = re.compile(r"[-*][ \t]+\[([ xX~-])\][ \t]+(\S.*)")
_ALMOST = re.compile(r"(?:[-*+]|[0-9]+[.)])?[ \t]*\[\s*\S?\s*\][ \t]*[*_`\[]*T[0-9]")
"""A box with an id that is not written as one."""
_ID = re.compile(r"[*_`\[\s]*(T[0-9]+(?:\.[0-9]+)*[a-z]?)(?![A-Za-z0-9%])[\]*_`:.\s–—-]*")
_LABEL = re.compile(r"[*_`\s]*\[([^\[\]]{1,40})\](?!\()[*_`\s]*")
_CHECKPOINT = re.compile(r"[*_\W]*checkpoint\b[*_:\s]*(.*)", re.IGNORECASE)
_PHASE = re.compile(r"phase", re.IGNORECASE)
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)*")
_ABOUT_ORDER = re.compile(r"dependenc|execution order", re.IGNORECASE)
_STATUS = {" ": TaskStatus.PENDING, "-": TaskStatus.SKIPPED, "~": TaskStatus.CANCELLED}


class BoxTask(Struct, frozen=True):
    """A task as it is in tasks.md."""

    key: str
    id: str
    """The key without the number that tells tasks with the same id apart."""
    title: str
    text: str
    """The words of its line without the mark, and the lines that belong to it."""
    status: TaskStatus
    line: int
    """Counted from 1."""
    column: int
    """Where its mark is in the line."""
    labels: tuple[str, ...] = ()
    stories: tuple[str, ...] = ()
    phase: str = ""
    checkpoint: str = ""
    section: str = ""
    waits: tuple[Dependency, ...] = ()


class ParsedTasks(Struct, frozen=True):
    """A tasks.md as it was understood."""

    tasks: tuple[BoxTask, ...]
    notices: tuple[Notice, ...] = ()
    independent_tests: Mapping[str, str] = field(default_factory=dict)
    """How each story is tried out on its own, by its key."""


def parse_tasks(text: str) -> ParsedTasks:
    """Understand the file."""
    found = Markdown.read(text)
    notices = list(_mistyped(found))
    tasks = _with_unique_keys(list(_read_boxes(found)), notices)
    tasks = _with_checkpoints(tasks, found)
    waits = _find_waits(tasks, found)
    tasks = [replace(task, waits=tuple(waits[task.key])) for task in tasks]
    return ParsedTasks(tuple(tasks), tuple(notices), dict(_independent_tests(found)))


def _mistyped(found: Markdown) -> Iterator[Notice]:
    for number, line in enumerate(found.lines):
        if number not in found.hidden and _ALMOST.match(line) and not _BOX.match(line):
            yield Notice(number + 1, f"`{plain(line)}` is not read as a task: write `- [ ] T001 What to do`.")


def tick(text: str, task: BoxTask, done: bool) -> str:
    """Return the file with nothing changed but the mark of a task; others that are `X` make it one."""
    lines = re.split(r"(\r\n|\r|\n)", text)
    line = lines[2 * (task.line - 1)]
    column = task.column + line.startswith("\ufeff")
    mark = ("X" if re.search(r"^\ufeff?[-*][ \t]+\[X\]", text, re.MULTILINE) else "x") if done else " "
    lines[2 * (task.line - 1)] = line[:column] + mark + line[column + 1 :]
    return "".join(lines)


def _read_boxes(found: Markdown) -> Iterator[BoxTask]:
    for number, line in enumerate(found.lines):
        box = _BOX.match(line) if number not in found.hidden else None
        if box is None:
            continue
        rest, labels = box[2].rstrip(), []
        named = _ID.match(rest)
        title = rest[named.end() :] if named else rest
        while label := _LABEL.match(title):
            labels.append(label[1].strip())
            title = title[label.end() :]
        id_ = (
            named[1] if named else TEXT_KEY + hashlib.sha256(" ".join(rest.split()).encode()).hexdigest()[:8]
        )
        above = [head for head in found.above(number) if head.level > 1]
        phases = [head for head in above if _PHASE.search(head.text)]
        phase = next(iter(phases[-1:] or above[:1]), None)
        yield BoxTask(
            key=id_,
            id=id_,
            title=plain(title) or id_,
            text="\n".join([rest, *_below(found, number)]),
            status=_STATUS.get(box[1], TaskStatus.DONE),
            line=number + 1,
            column=box.start(1),
            labels=tuple(labels),
            stories=_stories(labels, above),
            phase=plain(phase.text) if phase else "",
            section=" / ".join(plain(head.text) for head in above),
        )


def _below(found: Markdown, number: int) -> Sequence[str]:
    """Return the indented lines that belong to a box."""
    end = number + 1
    while end < len(found.lines) and (not found.lines[end].strip() or found.lines[end][0] in " \t"):
        end += 1
    below = strip_blank(found.lines[number + 1 : end])
    return [line.rstrip() for line in below.split("\n")] if below else []


def _stories(labels: Sequence[str], above: Sequence[Heading]) -> tuple[str, ...]:
    """Return the stories that the labels name, else those of the nearest heading that names any."""
    found = [story for label in labels for story in re.findall(r"US[0-9]+", label)]
    return tuple(dict.fromkeys(found)) or next(
        filter(None, (stories_in(head.text) for head in reversed(above))), ()
    )


def _with_unique_keys(tasks: Sequence[BoxTask], notices: list[Notice]) -> list[BoxTask]:
    """Make ids unique, which they are not in real files: the second T056 becomes `T056#2`."""
    lines: dict[str, list[int]] = {}
    result = []
    for task in tasks:
        before = lines.setdefault(task.id, [])
        before.append(task.line)
        if len(before) > 1:
            key = f"{task.id}#{len(before)}"
            text = f"{task.id} is here and on line {before[0]} too; this one is called {key}."
            notices.append(Notice(task.line, text))
            task = replace(task, key=key)
        result.append(task)
    return result


def _with_checkpoints(tasks: Sequence[BoxTask], found: Markdown) -> list[BoxTask]:
    result = list(tasks)
    for number, line in enumerate(found.lines):
        if "heckpoint" in line and number not in found.hidden and (said := _CHECKPOINT.match(line)):
            places = [place for place, task in enumerate(result) if task.line <= number]
            if places and not BOX.match(line):
                result[places[-1]] = replace(result[places[-1]], checkpoint=plain(said[1]) or "Checkpoint")
    return result


def _independent_tests(found: Markdown) -> Iterator[tuple[str, str]]:
    for head in found.headings:
        text = read_independent_test(found.section(head)) if head.level > 1 else ""
        yield from ((story, text) for story in stories_in(head.text) if text)


def _find_waits(tasks: Sequence[BoxTask], found: Markdown) -> dict[str, list[Dependency]]:
    """Return what each task waits for: what it says, its phase, and the tasks without [P] before it."""
    names = TaskNames({task.key: task.id for task in tasks})
    waits = {task.key: list(find_waits(task.text, task.key, names)) for task in tasks}
    for head in found.headings:
        if _ABOUT_ORDER.search(head.text):
            for number, line in enumerate(found.section(head), head.line + 2):
                for key, dependency in find_stated(line, number, names):
                    waits[key].append(dependency)
    for key, dependency in (*_phases(tasks), *_order(tasks)):
        stated = {other for wait in waits[key] if wait.kind is WaitKind.STATED for other in wait.keys}
        if dependency.kind is not WaitKind.ORDER or not stated.issuperset(dependency.keys):
            waits[key].append(dependency)
    return waits


def _phases(tasks: Sequence[BoxTask]) -> Iterator[tuple[str, Dependency]]:
    """A phase waits for the one before it; phases of stories do not wait for each other."""
    members: dict[str, list[BoxTask]] = {}
    for task in tasks:
        if _PHASE.search(task.phase):
            members.setdefault(task.phase, []).append(task)
    before: list[str] = []
    stories: list[str] = []
    for phase, inside in members.items():
        is_story = bool(stories_in(phase))
        for other in before[-1:] if is_story else (stories or before[-1:]):
            keys = tuple(task.key for task in members[other])
            dependency = Dependency(keys, WaitKind.PHASE, f"{_call(phase)} waits for {_call(other)}")
            yield from ((task.key, dependency) for task in inside)
        if is_story:
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
            why += "" if is_parallel else " and has no [P]"
            yield task.key, Dependency(before, WaitKind.ORDER, why)
        group.append(task.key)
        parallel = is_parallel
