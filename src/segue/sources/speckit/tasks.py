"""Reads tasks.md of a Spec Kit feature: what its tasks are, what belongs to each, and what is none."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from segue.domain.errors import SourceError
from segue.domain.task import Notice, TaskStatus
from segue.sources.markdown.boxes import Box, Mark, change_mark, read_boxes
from segue.sources.markdown.ids import atoms
from segue.sources.markdown.lines import (
    Heading,
    Line,
    decode,
    find_bad_byte,
    heading,
    plain,
    read_lines,
    readable,
    unclosed,
    without_marks,
)
from segue.sources.speckit.choose import PHASE, Chosen, choose, is_checklist
from segue.sources.speckit.spec import independent_test, stories_in
from segue.sources.speckit.unnamed import with_unnamed

_MARKUP = re.compile(r"\s*(?:[-*+•#>|`~<_]|[0-9]{1,9}[.)]\s)")
_MARKED = re.compile(r"(?:[-*+]\s+)?\[.\]\s+")
_CHECKPOINT = re.compile(r"[*_⚠️🚦\s]*checkpoint\b", re.IGNORECASE)
_TESTS = re.compile(r"[\W\d]*tests?\b", re.IGNORECASE)
_IMPLEMENTATION = re.compile(r"\bimplement", re.IGNORECASE)


class BoxTask(Struct, frozen=True):
    """A task as it is in tasks.md."""

    key: str
    title: str
    text: str
    """The words of its line without the mark, and the lines that belong to it."""
    status: TaskStatus
    line: int
    mark: Mark
    labels: tuple[str, ...] = ()
    stories: tuple[str, ...] = ()
    phase: str = ""
    checkpoint: str = ""
    """What must be true after it, if the file has a checkpoint between it and the next task."""
    section: str = ""
    """The headings above it, with a note below them and what the section comes before, if that says more."""

    @property
    def id(self) -> str:
        """The key without the number that tells tasks with the same id apart."""
        return self.key.split("#")[0]

    @property
    def fingerprint(self) -> str:
        """Changes with the words of the task's own line."""
        return fingerprint(self.text)


class ParsedTasks(Struct, frozen=True):
    """A tasks.md as it was understood."""

    tasks: tuple[BoxTask, ...]
    notices: tuple[Notice, ...] = ()
    boxes: int = 0
    """The number of boxes that are no tasks."""
    independent_tests: Mapping[str, str] = field(default_factory=dict)
    """How each story is tried out on its own, by its key."""


def parse(data: bytes, name: str = "tasks.md") -> ParsedTasks:
    """Understand the file."""
    lines = read_lines(decode(data, name))
    boxes = list(read_boxes(lines))
    notices = [*_bad_byte(data), *_hiding(lines)]
    chosen = choose(boxes) if any(box.named for box in boxes) else _without_ids(boxes)
    chosen = with_unnamed(chosen, boxes, lines, _inside(lines, chosen))
    starts = {task.line.number for task in chosen.tasks}
    before = _sections_before(boxes)
    tasks = [_task(task, _below(lines, task, starts), before) for task in chosen.tasks]
    tasks = _numbered(_with_checkpoints(tasks, lines), notices)
    notices += [*chosen.notices, *_remarks(chosen.tasks)]
    return ParsedTasks(
        tuple(tasks),
        tuple(sorted(notices, key=lambda notice: notice.line or 0)),
        0 if tasks else len(boxes),
        _independent_tests(lines),
    )


def mark_task(data: bytes, parsed: ParsedTasks, task: BoxTask, done: bool) -> bytes:
    """Return the file with nothing changed but the mark of this task."""
    new = change_mark(done, [other.mark for other in parsed.tasks])
    return data[: task.mark.start] + new.encode("utf-8", "surrogateescape") + data[task.mark.end :]


def fingerprint(text: str) -> str:
    """Names the first line of a task's text, however it is spaced."""
    words = " ".join(text.split("\n", 1)[0].split())
    return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def refusal(parsed: ParsedTasks, name: str) -> SourceError | None:
    """Return why a file cannot be worked on: it has no tasks."""
    if parsed.tasks:
        return None
    found = (
        f"it has {parsed.boxes} boxes, but they are no tasks"
        if parsed.boxes
        else "nothing has an id such as T001"
    )
    return SourceError(
        f"No tasks were found in {name}: {found}.",
        kept="Nothing was changed.",
        hint="Write each task as `- [ ] T001 What to do`, or run /speckit.tasks again.",
    )


def find_box(parsed: ParsedTasks, key: str, wanted: str, path: Path) -> BoxTask:
    """Return the box of a task by its id and its line's fingerprint; raises SourceError if it has changed."""
    same_key = next((box for box in parsed.tasks if box.key == key), None)
    if same_key and (same_key.fingerprint == wanted or same_key.status is TaskStatus.DONE):
        return same_key
    moved = [box for box in parsed.tasks if box.id == key.split("#")[0] and box.fingerprint == wanted]
    if len(moved) == 1:
        return moved[0]
    if same_key is None:
        message, hint = f"There is no task {key} in {path}.", "See: segue task list"
    else:
        message = f"Line {same_key.line} of {path} has changed: {key} says something else now."
        hint = "Tick its box yourself if the task is done all the same."
    raise SourceError(message, kept="Nothing was changed.", hint=hint)


def _without_ids(found: Sequence[Box]) -> Chosen:
    """Return the outermost boxes of a file without any id."""
    outside = [line for line in found if not is_checklist(line.headings)]
    least = min((line.indent for line in outside), default=0)
    tasks = tuple(line for line in outside if line.indent == least)
    if not tasks:
        return Chosen(())
    text = f"No box in this file has an id such as T001: {len(tasks)} boxes are read as tasks."
    return Chosen(tasks, (Notice(tasks[0].line.number, text + " Their keys are made from their texts."),))


def _inside(lines: Sequence[Line], chosen: Chosen) -> set[int]:
    """Return the lines that belong to a task."""
    starts = {task.line.number for task in chosen.tasks}
    return {
        task.line.number + n for task in chosen.tasks for n in range(len(_below(lines, task, starts)) + 1)
    }


def _independent_tests(lines: Sequence[Line]) -> dict[str, str]:
    """Return the independent test of each story: below the heading that names it."""
    found: dict[str, str] = {}
    stories: tuple[str, ...] = ()
    for index, line in enumerate(lines):
        if head := heading(line):
            stories = stories_in(head.text) or (() if head.level <= 2 else stories)
        elif stories and (text := independent_test(lines, index)):
            for story in stories:
                found.setdefault(story, readable(text))
    return found


def _sections_before(found: Sequence[Box]) -> dict[int, str]:
    """Return for each heading of tests, by its line, the implementation that follows in the same phase."""
    heads = list(dict.fromkeys(line.headings for line in found if line.headings))
    following: dict[tuple[Heading, ...], str] = {}
    before: dict[int, str] = {}
    for headings in reversed(heads):
        if _TESTS.match(headings[-1].text) and headings[:-1] in following:
            before[headings[-1].number] = following[headings[:-1]]
        if _IMPLEMENTATION.search(headings[-1].text):
            following[headings[:-1]] = plain(headings[-1].text)
    return before


def _section(task: Box, before: Mapping[int, str]) -> str:
    below_title = [head for head in task.headings if head.level > 1]
    section = " / ".join(_words(head) for head in below_title)
    if task.note:
        section += f": {readable(task.note)}"
    following = before.get(below_title[-1].number) if below_title else None
    return f"{section}, before {following}" if following else section


def _words(head: Heading) -> str:
    return plain(_MARKED.sub("", head.text))


def _task(task: Box, details: Sequence[str], before: Mapping[int, str]) -> BoxTask:
    id_, labels, title = (task.id, task.named.labels, task.named.title) if task.named else ("", (), task.rest)
    words = (title, *map(without_marks, details), id_, task.rest)
    return BoxTask(
        key=id_ or f"box-{fingerprint(task.rest)[:8]}",
        title=next(filter(None, map(plain, words)), "Task"),
        text=readable("\n".join([task.rest, *details])),
        status=task.mark.status,
        line=task.line.number,
        mark=task.mark,
        labels=labels,
        stories=_stories(labels, task),
        phase=_phase(task.headings),
        section=_section(task, before),
    )


def _below(lines: Sequence[Line], task: Box, starts: set[int]) -> list[str]:
    """Return the lines that belong to a list item: what is indented deeper, and its paragraph."""
    first = last = task.line.number
    for index in range(first, len(lines)):
        line = lines[index]
        if not line.text.strip():
            continue
        inside_own_block = first < line.block < line.number
        lazy = line.number == last + 1 and not line.block and not _MARKUP.match(line.text)
        if line.number in starts or heading(line):
            break
        if not (inside_own_block or line.indent > task.indent or lazy):
            break
        last = line.number
    return [line.text.rstrip() for line in lines[first:last]]


def _stories(labels: Sequence[str], task: Box) -> tuple[str, ...]:
    """Find stories by label, anywhere on the line; else by the nearest heading that names one."""
    found = [story for label in labels for story in stories_in(label, at_start=True)]
    if not found:
        found = [
            story for label in re.findall(r"\[(US[^\[\]]{1,30})\]", task.rest) for story in stories_in(label)
        ]
    if not found:
        nearest = (stories_in(head.text) for head in reversed(task.headings) if head.level > 1)
        found = list(next(filter(None, nearest), ()))
    return tuple(dict.fromkeys(found))


def _phase(headings: Sequence[Heading]) -> str:
    below_title = [head for head in headings if head.level > 1]
    phases = [head for head in below_title if PHASE.search(head.text)]
    return _words((phases[-1:] or below_title[:1])[0]) if below_title else ""


def _with_checkpoints(tasks: Sequence[BoxTask], lines: Sequence[Line]) -> list[BoxTask]:
    places = {task.line: place for place, task in enumerate(tasks)}
    found, last = list(tasks), None
    for line in lines:
        last = places.get(line.number, last)
        if last is not None and not line.block and (said := _CHECKPOINT.match(line.text)):
            text = plain(line.text[said.end() :].lstrip("*_:： ")) or "Checkpoint"
            found[last] = replace(found[last], checkpoint=text)
    return found


def _numbered(tasks: Sequence[BoxTask], notices: list[Notice]) -> list[BoxTask]:
    """Make ids unique, which they are not in real files: the second T056 becomes `T056#2`."""
    count: Counter[str] = Counter()
    first: dict[str, int] = {}
    result = []
    for task in tasks:
        count[task.key] += 1
        if count[task.key] == 1:
            first[task.key] = task.line
            result.append(task)
            continue
        key = f"{task.key}#{count[task.key]}"
        text = f"{task.key} is here and on line {first[task.key]} too; this one is called {key}."
        notices.append(Notice(task.line, text))
        result.append(replace(task, key=key))
    return result


def _remarks(tasks: Sequence[Box]) -> Iterator[Notice]:
    for task in tasks:
        name, status = task.id or "This box", task.mark.status
        if status is TaskStatus.CANCELLED:
            text = f"{name} is neither pending nor done: its box contains {readable(task.mark.text)!r}."
            yield Notice(task.line.number, text)
        elif status is TaskStatus.PENDING and len(atoms(task.id)) > 1:
            yield Notice(task.line.number, f"{name} names several ids; it is run as one task.")
        elif status is TaskStatus.PENDING and (task.loose or task.mark.text == "\u00a0"):
            text = f"The box of {name} is not written as `- [ ]`; it is read as {status}."
            yield Notice(task.line.number, text)


def _bad_byte(data: bytes) -> Iterator[Notice]:
    if bad := find_bad_byte(data):
        text = f"Byte {bad[1]} is not UTF-8; it is read as Windows-1252. Save the file as UTF-8."
        yield Notice(bad[0], text)


def _hiding(lines: Sequence[Line]) -> Iterator[Notice]:
    opened = unclosed(lines)
    hidden = list(read_boxes([replace(line, block=0) for line in lines[opened:]])) if opened else []
    if hidden:
        what = "comment" if "<!--" in lines[opened - 1].text else "code block"
        text = f"The {what} opened here is never closed: {len(hidden)} boxes in it are not read as tasks."
        yield Notice(opened, text)
