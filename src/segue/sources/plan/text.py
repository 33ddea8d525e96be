"""Reads the text of a plan: its tasks, what surrounds them, and what looks like a task but is none.

`read_strict` goes by the one rule of the format: a task begins at a line that is exactly `## Task N`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from msgspec import Struct

from segue.domain.errors import SourceError
from segue.domain.pattern import pattern
from segue.domain.task import Notice, Task
from segue.sources.markdown.lines import find_bad_byte, plain, split_heading, without_marks

INVALID = "Invalid or missing plan file."

LOOKS_LIKE_TASK = pattern(r" {0,3}#{1,6}[^\w]*task[^\w]*\d", re.IGNORECASE)
_SAYS_DONE = pattern(r"[\W_]*status[\W_]*(?:completed?|done|finished)\b", re.IGNORECASE)
_BOX = pattern(r"\s*(?:[-*+]|[0-9]{1,9}[.)])\s+\[([ xX])\]\s")


class ParsedPlan(Struct, frozen=True):
    """A plan as it was understood; `lost` are notices about sections that belong to no task."""

    tasks: tuple[Task, ...]
    notices: tuple[Notice, ...]
    lost: tuple[Notice, ...]
    preamble: str = ""
    read_as: str = ""
    """One line that says in which form the tasks were found."""


class PlanSection(Struct, frozen=True):
    """Lines from `start` to before `end`, headed by a task heading; `key` is None if it is no task."""

    start: int
    end: int
    key: str | None
    title: str = ""
    is_preamble: bool = False


def decode(data: bytes, name: str) -> str:
    """Return the text of a plan file; other encodings than UTF-8 are refused before any task runs."""
    if b"\0" in data:
        raise SourceError(
            f"{INVALID} {name} is not a text.",
            kept="Nothing was changed.",
            hint="Name the Markdown file with the tasks.",
        )
    if bad := find_bad_byte(data):
        raise SourceError(
            f"{INVALID} {name} is not UTF-8: byte {bad[1]} (line {bad[0]}) cannot be read.",
            kept="Nothing was changed.",
            hint="Save the file as UTF-8, for example with `iconv -f LATIN1 -t UTF-8`.",
        )
    return data.decode()


def order(key: str) -> tuple[tuple[int, ...], str]:
    """Sorts 2 before 2.1 before 4 before 4b before 10."""
    number = key.rstrip("abcdefghijklmnopqrstuvwxyz")
    return tuple(int(part) for part in number.split(".")), key[len(number) :]


def body(lines: Sequence[str], start: int, end: int) -> str:
    """Return the lines as they are, without blank ones at either end."""
    while start < end and not lines[start].strip():
        start += 1
    while start < end and not lines[end - 1].strip():
        end -= 1
    return "\n".join(lines[start:end])


def make_task(lines: Sequence[str], section: PlanSection, above: str = "") -> Task:
    """Return the task of a section; its title is that of its heading, or its first words."""
    assert section.key is not None
    text = body(lines, section.start + 1, section.end)
    words = (plain(without_marks(lines[n])) for n in range(section.start + 1, section.end))
    title = plain(section.title) or next(filter(None, words), f"Task {section.key}")
    return Task(section.key, title, text or section.title, line=section.start + 1, section=above)


def without_duplicates(sections: Sequence[PlanSection]) -> tuple[list[PlanSection], list[Notice]]:
    """Return the first section of each number, and what to say about the others."""
    first: dict[str, PlanSection] = {}
    lost: list[Notice] = []
    for section in sections:
        if section.key is None:
            continue
        known = first.setdefault(section.key, section)
        if known is not section:
            text = f"Task {section.key} is here and on line {known.start + 1}: give each its own number."
            lost.append(Notice(section.start + 1, text))
    return list(first.values()), lost


def says_done(lines: Sequence[str], section: PlanSection) -> Iterator[Notice]:
    """Return a notice if a section says by itself that it is done: the state file decides."""
    who = "the plan" if section.key is None else f"Task {section.key}"
    rest = "Segue goes by its own record of completed tasks."
    boxes: list[tuple[int, bool]] = []
    text = "\n".join(lines[section.start : section.end])
    if not any(word in text for word in ("tatus", "TATUS", "[x]", "[X]")):
        return  # the usual case, decided without a look at each line
    for number in range(section.start, section.end):
        if _SAYS_DONE.match(lines[number]):
            yield Notice(number + 1, f"This line says that {who} is done already; {rest}")
            return
        if box := _BOX.match(lines[number]):
            boxes.append((number + 1, box[1] != " "))
    if boxes and all(ticked for _, ticked in boxes):
        yield Notice(boxes[0][0], f"All boxes of {who} are ticked; {rest}")


def hashed_lines(lines: Sequence[str]) -> list[int]:
    """Return the lines that may be headings: plans may have many megabytes, but few of those."""
    return [number for number, line in enumerate(lines) if "#" in line[:4]]


def quote(line: str) -> str:
    """Return a line as it can be shown in a message."""
    shown = (
        line[:320] if line[:320].isprintable() else "".join(c if c.isprintable() else " " for c in line[:320])
    )
    shown = shown.strip()
    return f"`{shown if len(shown) <= 80 else shown[:79].rstrip() + '…'}`"


def listing(notices: Iterable[Notice], most: int = 20) -> str:
    """Return notices as indented lines for an error message."""
    rows = [f"  line {notice.line}: {notice.text}" for notice in notices]
    more = [f"  … and {len(rows) - most} more"] if len(rows) > most else []
    return "\n".join(rows[:most] + more)


# Lines are matched one by one, so `\s` never reaches over a line's end; ASCII keeps `٣` out.
CANONICAL = re.compile(r"## Task\s+([0-9]+)\s*", re.ASCII)
_CANONICAL_END = re.compile(r"## Task\s+[0-9]+", re.ASCII)
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)", re.DOTALL)
_LONGEST_KEY = 18
"""Longer numbers are nobody's task index, and beyond what other readers of the state file can hold."""


def read_strict(text: str) -> ParsedPlan:
    """Understand a plan by the canonical rule; what it loses is reported."""
    lines = text.replace("\r\n", "\n").split("\n")
    fences = _fences(lines)
    hashed = hashed_lines(lines)
    sections = _sections(lines, hashed)
    kept, lost = without_duplicates(sections)
    notices = list(lost)
    for notice, is_lost in _strays(lines, fences, sections, hashed):
        notices.append(notice)
        if is_lost:
            lost.append(notice)
    notices += _remarks(lines, fences, sections, hashed)
    by_line = attrgetter("line")
    return ParsedPlan(
        tasks=tuple(
            sorted((make_task(lines, section) for section in kept), key=lambda task: order(task.key))
        ),
        notices=tuple(sorted(notices, key=by_line)),
        lost=tuple(sorted(lost, key=by_line)),
        preamble=body(lines, 0, sections[0].end),
    )


def swallowed(
    lines: Sequence[str], hidden: Sequence[int], section: PlanSection, hashed: Sequence[int]
) -> Iterator[Notice]:
    """Return notices about chapters that a task's body includes although they are likely not meant for it."""
    # Within the plan `##` may well be a task's own subheading; after the last task it rarely is.
    level = 2 if section.end == len(lines) else 1
    inside = (n for n in _within(hashed, section.start + 1, section.end) if not hidden[n])
    found = [n for n in inside if (head := split_heading(lines[n])) and head[0] <= level]
    found = [n for n in found if not LOOKS_LIKE_TASK.match(lines[n])]
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        text = f"{quote(lines[found[0]])}{more} is read as part of Task {section.key}: "
        yield Notice(found[0] + 1, text + "move it before the first task if it is not meant for it alone.")


def _within(numbers: Sequence[int], start: int, end: int) -> Sequence[int]:
    return numbers[bisect_left(numbers, start) : bisect_left(numbers, end)]


def _sections(lines: Sequence[str], hashed: Sequence[int]) -> list[PlanSection]:
    """Cut the lines; the first section is the text before any task and may be empty."""
    starts = [(0, None), *_starts(lines, hashed)]
    ends = [number for number, _ in starts[1:]] + [len(lines)]
    return [
        PlanSection(number, end, key, is_preamble=place == 0)
        for place, ((number, key), end) in enumerate(zip(starts, ends, strict=True))
    ]


def _starts(lines: Sequence[str], hashed: Sequence[int]) -> Iterator[tuple[int, str | None]]:
    for number in hashed:
        if _CANONICAL_END.match(lines[number]):
            found = CANONICAL.fullmatch(lines[number])
            key = (found[1].lstrip("0") or "0") if found else ""
            yield number, key if 0 < len(key) <= _LONGEST_KEY else None


def _strays(
    lines: Sequence[str], fences: Sequence[int], sections: Sequence[PlanSection], hashed: Sequence[int]
) -> Iterator[tuple[Notice, bool]]:
    """Lines that look like a task heading but are not, or are in a code block; True: text is lost."""
    for section in sections:
        for number in _within(hashed, section.start, section.end):
            line = lines[number]
            if not LOOKS_LIKE_TASK.match(line):
                continue
            heads = number == section.start and not section.is_preamble
            if heads and section.key is not None:
                if fences[number]:
                    yield Notice(number + 1, _fenced_task(line, fences[number])), False
            elif fences[number] and not heads:
                yield Notice(number + 1, fenced(line, fences[number])), False
            else:
                yield Notice(number + 1, _near_miss(line, section)), section.key is None


def _near_miss(line: str, section: PlanSection) -> str:
    where = f"its text belongs to Task {section.key}" if section.key else "its section belongs to no task"
    remedy = "write `## Task N` with the number alone on the line, or leave --plan-format strict out"
    return f"{quote(line)} is not read as a task, {where}: {remedy}."


def _fenced_task(line: str, fence: int) -> str:
    return (
        f"{quote(line)} is in the code block opened on line {fence} and is read as a task even so: "
        "indent it if it is only an example, or leave --plan-format strict out."
    )


def fenced(line: str, fence: int) -> str:
    """Say that a task heading in a code block is none."""
    return (
        f"{quote(line)} is in the code block opened on line {fence} and is not read as a task: "
        "move it out of the block if it should be one."
    )


def _remarks(
    lines: Sequence[str], fences: Sequence[int], sections: Sequence[PlanSection], hashed: Sequence[int]
) -> Iterator[Notice]:
    """Return notices about sections that are read correctly but may surprise."""
    for section in sections:
        if section.key is None and not section.is_preamble:
            continue
        if section.key is not None:
            yield from swallowed(lines, fences, section, hashed)
            if not body(lines, section.start + 1, section.end):
                yield Notice(section.start + 1, f"Task {section.key} has no text.")
        yield from says_done(lines, section)


def _fences(lines: Sequence[str]) -> list[int]:
    """Return for each line which line opened the code block it is in, else 0."""
    inside = [0] * len(lines)
    opener, opened = "", 0
    for number, line in enumerate(lines):
        found = _FENCE.match(line) if line.lstrip(" ")[:1] in ("`", "~") else None
        if opened:
            inside[number] = opened
            if found and found[1].startswith(opener) and not found[2].strip():
                opened = 0
        elif found:
            opener, opened = found[1], number + 1
            inside[number] = opened
    return inside
