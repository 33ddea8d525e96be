"""Reads a plan in the shapes people write: headings such as `Task N: title` or `Step N`, lists of boxes."""

from __future__ import annotations

import re
from bisect import bisect
from collections.abc import Iterator, Sequence
from operator import attrgetter

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.amounts import format_count
from segue.domain.task import Notice, Task, TaskStatus
from segue.sources.markdown.ids import named_in_heading, numbered
from segue.sources.markdown.lines import hidden_by, plain, split_heading, split_lines
from segue.sources.markdown.relations import TaskNames, wait_by_text
from segue.sources.plan.text import (
    CANONICAL,
    LOOKS_LIKE_TASK,
    ParsedPlan,
    PlanSection,
    body,
    fenced,
    hashed_lines,
    make_task,
    order,
    quote,
    says_done,
    swallowed,
    without_duplicates,
)

_HEADING_BOX = re.compile(r"(?:[-*+]\s+)?\[([ xX])\]\s+")
_BOX = re.compile(r"(\s*)(?:[-*+•]|[0-9]{1,9}[.)])\s+\[([ xX~-])\]\s+(?=\S)(.*)", re.DOTALL)
_CHECKLIST = re.compile(r"check-?\s?list|accept|criteri|definition of done|prerequisit", re.IGNORECASE)
_GROUP_NUMBER = re.compile(r"\w[^\W\d]*\s*#?([0-9]+)")
_STEP = re.compile(r"\b[Ss]tep(?=s?\s+#?[0-9])")
_PHASE = re.compile(r"\b(?:phase|milestone|stage|sprint|part)\b", re.IGNORECASE)
_DIGITS = re.compile(r"0*([0-9]{1,18}(?:\.[0-9]+)*[a-z]?)")
_DONE = {"x": TaskStatus.DONE, "X": TaskStatus.DONE, "-": TaskStatus.SKIPPED, "~": TaskStatus.CANCELLED}


class _PlanHeading(Struct, frozen=True):
    """A heading, and the task it begins if it begins one."""

    line: int
    level: int
    text: str
    word: str = ""
    key: str = ""
    title: str = ""
    mark: str = " "


def parse(text: str) -> ParsedPlan:
    """Understand a plan in any of the usual shapes."""
    plan = _read(text.removeprefix("\ufeff"))
    return replace(plan, tasks=_with_waits(plan))


def _with_waits(plan: ParsedPlan) -> tuple[Task, ...]:
    """Return the tasks with what they say that they wait for; a plan does not tell which go side by side."""
    names = {}
    for task in plan.tasks:
        known = named_in_heading(task.title)
        names[task.key] = known.id if known and known.id.startswith("T") else task.key
    called = TaskNames.of(names)
    found: list[Task] = []
    for task in plan.tasks:
        text = _STEP.sub("Task", task.text) if "'Step N" in plan.read_as else task.text
        waits = tuple(wait_by_text(f"{task.title}\n{text}", task.key, called))
        found.append(replace(task, depends_on=waits))
    return tuple(found)


def _read(text: str) -> ParsedPlan:
    """Tasks come before steps, headings before boxes."""
    lines = split_lines(text)
    hidden = hidden_by([*lines, ""])
    hashed = hashed_lines(lines)
    heads = list(_headings(lines, hidden, hashed))
    for word in ("Task", "Step"):
        if any(head.word == word for head in heads):
            return _read_headings(lines, hidden, [_only(head, word) for head in heads], hashed)
    return _read_boxes(lines, hidden, heads, hashed)


def _headings(lines: Sequence[str], hidden: Sequence[int], hashed: Sequence[int]) -> Iterator[_PlanHeading]:
    for number in hashed:
        if not hidden[number] and (found := split_heading(lines[number])):
            level, text = found
            box = _HEADING_BOX.match(text)
            words = text[box.end() :] if box else text
            mark = box[1] if box else " "
            if head := numbered(words):
                yield _PlanHeading(number, level, text, head.word, head.key, head.title, mark)
            elif (known := named_in_heading(words)) and (digits := _DIGITS.search(known.id.lower())):
                yield _PlanHeading(
                    number, level, text, "Task", digits[1], f"{known.id} {known.title}".strip(), mark
                )
            else:
                yield _PlanHeading(number, level, text)


def _only(head: _PlanHeading, word: str) -> _PlanHeading:
    return head if head.word in ("", word) else replace(head, word="", key="")


def _read_headings(
    lines: Sequence[str], hidden: Sequence[int], heads: list[_PlanHeading], hashed: Sequence[int]
) -> ParsedPlan:
    canonical = all(CANONICAL.fullmatch(lines[head.line]) for head in heads if head.key)
    heads = _with_groups(_without_parents(lines, heads))
    sections = _sections(lines, heads, canonical)
    kept, lost = without_duplicates(sections)
    above, marks = _sections_above(heads), {head.line: head.mark for head in heads}
    tasks = [
        replace(
            make_task(lines, section, above[section.start]),
            status=_status(marks[section.start]),
            phase=_phase(above[section.start]),
        )
        for section in kept
    ]
    lost += _unread(lines, hidden, sections, hashed)
    notices = [*lost, *_remarks(lines, hidden, sections, hashed, canonical)]
    by_line = attrgetter("line")
    first = sections[0].start if sections else len(lines)
    return ParsedPlan(
        tuple(sorted(tasks, key=lambda task: order(task.key))),
        tuple(sorted(notices, key=by_line)),
        tuple(sorted(lost, key=by_line)),
        body(lines, 0, first),
        _say_headings(heads, len(tasks)),
    )


def _phase(above: str) -> str:
    """Return the phase among the headings above a task."""
    return next((head for head in above.split(" / ") if _PHASE.search(head)), "")


def _status(mark: str) -> TaskStatus:
    return _DONE.get(mark, TaskStatus.PENDING)


def _without_parents(lines: Sequence[str], heads: Sequence[_PlanHeading]) -> list[_PlanHeading]:
    """A heading that has nothing but tasks of its own below it is a chapter, not a task."""
    found = []
    for head, after in zip(heads, [*heads[1:], None], strict=True):
        is_parent = after is not None and after.key.startswith(f"{head.key}.") and after.level > head.level
        empty = after is not None and not body(lines, head.line + 1, after.line)
        found.append(replace(head, key="", word="") if head.key and is_parent and empty else head)
    return found


def _with_groups(heads: Sequence[_PlanHeading]) -> list[_PlanHeading]:
    """Call task 2 of phase 3 `3.2`, where each phase counts its tasks from 1."""
    keys = [head.key for head in heads if head.key]
    if len(set(keys)) == len(keys):
        return list(heads)
    found, above = [], dict[int, str]()
    for head in heads:
        above = {level: number for level, number in above.items() if level < head.level}
        if head.key:
            group = above[max(above)] if above else ""
            found.append(replace(head, key=f"{group}.{head.key}") if group else head)
            continue
        if number := _GROUP_NUMBER.match(head.text):
            above[head.level] = number[1]
        found.append(head)
    keys = [head.key for head in found if head.key]
    return found if len(set(keys)) == len(keys) else list(heads)


def _sections(lines: Sequence[str], heads: Sequence[_PlanHeading], canonical: bool) -> list[PlanSection]:
    """Cut the lines from the first task on; a task of the strict form ends at the next one only."""
    starts: list[_PlanHeading] = []
    level = 0
    for head in heads:
        if head.key or (starts and not canonical and head.level <= level):
            starts.append(head)
            level = head.level if head.key else 7
    ends = [head.line for head in starts[1:]] + [len(lines)]
    return [
        PlanSection(head.line, end, head.key or None, head.title)
        for head, end in zip(starts, ends, strict=True)
    ]


def _sections_above(heads: Sequence[_PlanHeading]) -> dict[int, str]:
    """Return for each task, by its line, the headings above it."""
    above: list[_PlanHeading] = []
    found = {}
    for head in heads:
        above = [other for other in above if other.level < head.level]
        found[head.line] = " / ".join(plain(other.text) for other in above if other.level > 1)
        if not head.key:
            above.append(head)
    return found


def _remarks(
    lines: Sequence[str],
    hidden: Sequence[int],
    sections: Sequence[PlanSection],
    hashed: Sequence[int],
    canonical: bool,
) -> Iterator[Notice]:
    """Return notices about what is read correctly but may surprise."""
    first = sections[0].start if sections else len(lines)
    yield from says_done(lines, PlanSection(0, first, None))
    for section in sections:
        if section.key is None:
            if body(lines, section.start + 1, section.end) and not LOOKS_LIKE_TASK.match(
                lines[section.start]
            ):
                text = f"{quote(lines[section.start])} ends the task above: this part belongs to no task."
                yield Notice(section.start + 1, text)
            continue
        if canonical:
            yield from swallowed(lines, hidden, section, hashed)
        if not section.title and not body(lines, section.start + 1, section.end):
            yield Notice(section.start + 1, f"Task {section.key} has no text.")
        yield from says_done(lines, section)
    for number in _look_like_tasks(lines, hashed):
        if 0 < hidden[number] <= number + 1 and hidden[number] != hidden[-1]:
            yield Notice(number + 1, fenced(lines[number], hidden[number]))


def _unread(
    lines: Sequence[str], hidden: Sequence[int], sections: Sequence[PlanSection], hashed: Sequence[int]
) -> Iterator[Notice]:
    """Return notices about headings of tasks that cannot be read, or are in a block that is never closed."""
    read = {section.start for section in sections if section.key}
    for number in _look_like_tasks(lines, hashed):
        if number in read or (hidden[number] and hidden[number] != hidden[-1]):
            continue
        if hidden[number]:
            yield Notice(number + 1, fenced(lines[number], hidden[number]))
        elif (head := split_heading(lines[number])) is None or numbered(head[1]) is None:
            yield _not_read(lines, number)


def _look_like_tasks(lines: Sequence[str], hashed: Sequence[int]) -> Iterator[int]:
    return (number for number in hashed if LOOKS_LIKE_TASK.match(lines[number]))


def _say_headings(heads: Sequence[_PlanHeading], count: int) -> str:
    tasks = [head for head in heads if head.key]
    levels = sorted({head.level for head in tasks})
    form = f"{tasks[0].word} N" + (": title" if any(head.title for head in tasks) else "")
    shown = " and ".join(map(str, levels))
    return f"Read {format_count(count, 'task')} from level-{shown} headings '{form}'."


def _read_boxes(
    lines: Sequence[str], hidden: Sequence[int], heads: Sequence[_PlanHeading], hashed: Sequence[int]
) -> ParsedPlan:
    """Read the outermost boxes outside checklists; a box that is ticked is done."""
    left_out = {head.line for head in heads if head.level > 1 and _CHECKLIST.search(head.text)}
    places = {head.line for head in heads}
    boxes: list[tuple[int, re.Match[str]]] = []
    skipping = False
    for number, line in enumerate(lines):
        if number in places:
            skipping = number in left_out
        elif "[" in line[:32] and not hidden[number] and not skipping and (found := _BOX.match(line)):
            boxes.append((number, found))
    least = min((len(found[1].expandtabs(4)) for _, found in boxes), default=0)
    inner = [number for number, found in boxes if len(found[1].expandtabs(4)) > least and found[2] == " "]
    boxes = [(number, found) for number, found in boxes if len(found[1].expandtabs(4)) == least]
    if not boxes:
        strange = tuple(_not_read(lines, number) for number in _look_like_tasks(lines, hashed))
        return ParsedPlan((), strange, strange, body(lines, 0, len(lines)))
    rows = (_PlanHeading(number, 7, "", key="box") for number, _ in boxes)
    above = _sections_above(sorted([*heads, *rows], key=attrgetter("line")))
    ends = [number for number, _ in boxes[1:]] + [len(lines)]
    tasks, notices = [], []
    for place, ((number, found), end) in enumerate(zip(boxes, ends, strict=True), start=1):
        last = _end_of_item(lines, number, end, least, places)
        text = "\n".join([found[3].rstrip(), body(lines, number + 1, last)]).rstrip()
        title = plain(found[3]) or f"Task {place}"
        tasks.append(Task(str(place), title, text, _status(found[2]), number + 1, section=above[number]))
        below = inner[bisect(inner, number) : bisect(inner, last)]
        if below and tasks[-1].status is TaskStatus.DONE:
            text = f"{quote(lines[below[0]])} is open, but the box above it is ticked: it counts as done."
            notices.append(Notice(below[0] + 1, text))
        if rest := [n for n in range(last, end) if lines[n].strip() and n not in places]:
            notices.append(Notice(rest[0] + 1, f"{quote(lines[rest[0]])} belongs to no task."))
    done = sum(task.status is TaskStatus.DONE for task in tasks)
    said = f"Read {format_count(len(tasks), 'task')} from boxes `- [ ]`, {done} of them ticked."
    first = min([boxes[0][0], *(head.line for head in heads if head.level > 1)])
    return ParsedPlan(tuple(tasks), tuple(notices), (), body(lines, 0, first), said)


def _end_of_item(lines: Sequence[str], start: int, end: int, indent: int, heads: set[int]) -> int:
    """Return where what belongs to a box ends: at a heading, or after a blank line at text on its level."""
    blank = False
    for number in range(start + 1, end):
        line = lines[number]
        if number in heads:
            return number
        if not line.strip():
            blank = True
        elif blank and len(line.expandtabs(4)) - len(line.expandtabs(4).lstrip()) <= indent:
            return number
        else:
            blank = False
    return end


def _not_read(lines: Sequence[str], number: int) -> Notice:
    text = f"{quote(lines[number])} is not read as a task: write `## Task N`, with one number."
    return Notice(number + 1, text)
