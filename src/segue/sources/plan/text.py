"""The pieces of a plan: sections, tasks, and what is said about lines that look like tasks but are none."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from segue.domain.errors import SourceError
from segue.domain.task import Notice, Task
from segue.sources.markdown.lines import find_bad_byte, plain, split_heading, without_marks

INVALID = "Invalid or missing plan file."

LOOKS_LIKE_TASK = re.compile(r" {0,3}#{1,6}[^\w]*task[^\w]*\d", re.IGNORECASE)
_SAYS_DONE = re.compile(r"[\W_]*status[\W_]*(?:completed?|done|finished)\b", re.IGNORECASE)
_BOX = re.compile(r"\s*(?:[-*+]|[0-9]{1,9}[.)])\s+\[([ xX])\]\s")


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


def fenced(line: str, fence: int) -> str:
    """Say that a task heading in a code block is none."""
    return (
        f"{quote(line)} is in the code block opened on line {fence} and is not read as a task: "
        "move it out of the block if it should be one."
    )
