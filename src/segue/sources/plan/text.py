"""Reads the text of a plan: which tasks stand in it, and what looks like a task but is none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter

from msgspec import Struct

from segue.domain.task import Notice, Task
from segue.sources.strict_text import strict_text

INVALID = "Invalid or missing plan file."

# Lines are matched one by one, so `\s` never reaches over a line's end; ASCII keeps `٣` out.
_CANONICAL = re.compile(r"## Task\s+([0-9]+)\s*", re.ASCII)
_CANONICAL_END = re.compile(r"## Task\s+[0-9]+", re.ASCII)
# `2.1` and `4b` are tasks of their own; `2-3` and `2/3` could mean anything and are left to a person.
_LENIENT = re.compile(
    r"#{2,3}\s+(?i:task)\s+([0-9]+(?:\.[0-9]+)*[a-zA-Z]?)(?!\w|[-–/.][0-9])[:.)\s—–-]*(.*)", re.DOTALL
)
_LOOKS_LIKE_TASK = re.compile(r" {0,3}#{1,6}[^\w]*task[^\w]*\d", re.IGNORECASE)
_HEADING = re.compile(r" {0,3}(#{1,6})(?:\s|$)")
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`]*$)|~{3,})(.*)", re.DOTALL)
_SAYS_DONE = re.compile(r"[\W_]*status[\W_]*(?:completed?|done|finished)\b", re.IGNORECASE)
_BOX = re.compile(r"\s*(?:[-*+]|[0-9]{1,9}[.)])\s+\[([ xX])\]\s")
_MARKS = re.compile(r"[\s#>*+_`~-]*(?:[0-9]{1,9}[.)]\s+)?(?:\[[ xX]\]\s+)?[\s*_`~]*")

_LONGEST_KEY = 18
"""Longer numbers are nobody's task index, and beyond what other readers of the state file can hold."""
_LONGEST_TITLE = 80


class ParsedPlan(Struct, frozen=True):
    """A plan as it was understood; `lost` are notices about sections that belong to no task."""

    tasks: tuple[Task, ...]
    notices: tuple[Notice, ...]
    lost: tuple[Notice, ...]
    preamble: str = ""


class _Section(Struct, frozen=True):
    """Lines from `start` to before `end`, headed by a task heading; `key` is None if it is no task."""

    start: int
    end: int
    key: str | None
    title: str = ""
    is_preamble: bool = False


_Start = tuple[str | None, str]
"""A new section begins: the task's key, or None for a part that is no task, and the title."""

_Rule = Callable[[str, bool, int], _Start | None]
"""Says whether a line (fenced or not) ends a section whose own heading has the given level."""


def decode(data: bytes, name: str) -> str:
    """The text of a plan file; other encodings than UTF-8 are refused before any task runs."""
    return strict_text(data, name, INVALID)


def parse(text: str, lenient: bool = False) -> ParsedPlan:
    """Understand a plan by the canonical rule, or by the lenient one."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    fences = _fences(lines)
    sections = _sections(lines, fences, _lenient_start if lenient else _strict_start)
    kept, lost = _without_duplicates(sections)
    tasks = [_task(lines, section) for section in kept]
    notices = list(lost)
    for notice, is_lost in _strays(lines, fences, sections, lenient):
        notices.append(notice)
        if is_lost:
            lost.append(notice)
    notices += _remarks(lines, fences, sections, lenient)
    by_line = attrgetter("line")
    return ParsedPlan(
        tasks=tuple(sorted(tasks, key=lambda task: order(task.key))),
        notices=tuple(sorted(notices, key=by_line)),
        lost=tuple(sorted(lost, key=by_line)),
        preamble=_body(lines, 0, sections[0].end),
    )


def order(key: str) -> tuple[tuple[int, ...], str]:
    """Sorts 2 before 2.1 before 4 before 4b before 10."""
    number = key.rstrip("abcdefghijklmnopqrstuvwxyz")
    return tuple(int(part) for part in number.split(".")), key[len(number) :]


def _strict_start(line: str, fenced: bool, level: int) -> _Start | None:  # noqa: ARG001 - the rule knows neither
    if not _CANONICAL_END.match(line):
        return None
    found = _CANONICAL.fullmatch(line)
    return (_key(found[1]) if found else None), ""


def _lenient_start(line: str, fenced: bool, level: int) -> _Start | None:
    if fenced:
        return None
    found = _LENIENT.fullmatch(line)
    if found and (key := _key(found[1])):
        return key, _plain(found[2].rstrip().rstrip("#"))
    return (None, "") if 0 < _level(line) <= level else None


def _key(number: str) -> str | None:
    """`01` is 1, `2.1` and `4B` are 2.1 and 4b; None for a number too long to be one."""
    parts = [part.lstrip("0") or "0" for part in number.lower().split(".")]
    key = ".".join("0" + part if part.isalpha() else part for part in parts)
    return key if len(key) <= _LONGEST_KEY else None


def _sections(lines: list[str], fences: list[int], rule: _Rule) -> list[_Section]:
    """Cut the lines; the first section is the text before any task and may be empty."""
    starts: list[tuple[int, _Start]] = [(0, (None, ""))]
    level = 0
    for number, line in enumerate(lines):
        if "#" not in line[:4]:
            continue
        if start := rule(line, fences[number] > 0, level):
            starts.append((number, start))
            level = _level(line) if start[0] else 0
    ends = [number for number, _ in starts[1:]] + [len(lines)]
    return [
        _Section(number, end, key, title, is_preamble=place == 0)
        for place, ((number, (key, title)), end) in enumerate(zip(starts, ends, strict=True))
    ]


def _without_duplicates(sections: list[_Section]) -> tuple[list[_Section], list[Notice]]:
    first: dict[str, _Section] = {}
    lost: list[Notice] = []
    for section in sections:
        if section.key is None:
            continue
        known = first.setdefault(section.key, section)
        if known is not section:
            text = f"Task {section.key} is here and on line {known.start + 1}: give each its own number."
            lost.append(Notice(section.start + 1, text))
    return list(first.values()), lost


def _task(lines: list[str], section: _Section) -> Task:
    assert section.key is not None
    body = _body(lines, section.start + 1, section.end)
    title = section.title or next(filter(None, map(_plain, body.split("\n"))), f"Task {section.key}")
    return Task(section.key, _cut(title), body or section.title, line=section.start + 1)


def _body(lines: list[str], start: int, end: int) -> str:
    """The lines as they are, without blank ones at either end."""
    while start < end and not lines[start].strip():
        start += 1
    while start < end and not lines[end - 1].strip():
        end -= 1
    return "\n".join(lines[start:end])


def _strays(
    lines: list[str], fences: list[int], sections: list[_Section], lenient: bool
) -> Iterator[tuple[Notice, bool]]:
    """Lines that look like a task heading but are none, or stand in a code block; True: text is lost."""
    open_fence = fences[-1]
    for section in sections:
        for number in range(section.start, section.end):
            line = lines[number]
            if "#" not in line[:4] or not _LOOKS_LIKE_TASK.match(line):
                continue
            heads = number == section.start and not section.is_preamble
            if heads and section.key is not None:
                if fences[number]:
                    yield Notice(number + 1, _fenced_task(line, fences[number])), False
            elif fences[number] and not heads:
                # A block that is never closed hides the rest of the plan: more likely a slip than a wish.
                yield (
                    Notice(number + 1, _fenced(line, fences[number])),
                    lenient and fences[number] == open_fence,
                )
            else:
                yield Notice(number + 1, _near_miss(line, section, lenient)), section.key is None


def _near_miss(line: str, section: _Section, lenient: bool) -> str:
    where = f"its text belongs to Task {section.key}" if section.key else "its section belongs to no task"
    remedy = "write `## Task N` with the number alone on the line"
    if not lenient and _lenient_start(line, False, 0):
        remedy += ", or use --plan-format lenient"
    return f"{_quoted(line)} is not read as a task, {where}: {remedy}."


def _fenced_task(line: str, fence: int) -> str:
    return (
        f"{_quoted(line)} is in the code block opened on line {fence} and is read as a task even so: "
        "indent it if it is only an example, or use --plan-format lenient, which skips code blocks."
    )


def _fenced(line: str, fence: int) -> str:
    return (
        f"{_quoted(line)} is in the code block opened on line {fence} and is not read as a task: "
        "move it out of the block if it should be one."
    )


def _remarks(
    lines: list[str], fences: list[int], sections: list[_Section], lenient: bool
) -> Iterator[Notice]:
    """Return notices about sections that are read correctly but may surprise."""
    for section in sections:
        if section.key is None and not section.is_preamble:
            if lenient and not _LOOKS_LIKE_TASK.match(lines[section.start]):
                text = f"{_quoted(lines[section.start])} ends the task above: this part belongs to no task."
                yield Notice(section.start + 1, text)
            continue
        if section.key is not None and not lenient:
            yield from _swallowed(lines, fences, section)
        if section.key is not None and not _body(lines, section.start + 1, section.end) and not section.title:
            yield Notice(section.start + 1, f"Task {section.key} has no text.")
        yield from _says_done(lines, section)


def _swallowed(lines: list[str], fences: list[int], section: _Section) -> Iterator[Notice]:
    """Return notices about chapters that a task's body includes although they are likely not meant for it."""
    # Within the plan `##` may well be a task's own subheading; after the last task it rarely is.
    level = 2 if section.end == len(lines) else 1
    inside = range(section.start + 1, section.end)
    found = [n for n in inside if not fences[n] and 0 < _level(lines[n]) <= level]
    found = [n for n in found if not _LOOKS_LIKE_TASK.match(lines[n])]
    if found:
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        text = f"{_quoted(lines[found[0]])}{more} is read as part of Task {section.key}: "
        yield Notice(found[0] + 1, text + "move it before the first task if it is not meant for it alone.")


def _says_done(lines: list[str], section: _Section) -> Iterator[Notice]:
    inside = range(section.start, section.end)
    who = "the plan" if section.key is None else f"Task {section.key}"
    rest = "Segue goes by its own record of completed tasks."
    if line := next((n + 1 for n in inside if _SAYS_DONE.match(lines[n])), None):
        yield Notice(line, f"This line says that {who} is done already; {rest}")
        return
    boxes = [(n + 1, box[1] != " ") for n in inside if (box := _BOX.match(lines[n]))]
    if boxes and all(ticked for _, ticked in boxes):
        yield Notice(boxes[0][0], f"All boxes of {who} are ticked; {rest}")


def _fences(lines: list[str]) -> list[int]:
    """For each line, and for the end of the file, which line opened the code block it is in; else 0."""
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
    return [*inside, opened]


def _level(line: str) -> int:
    found = _HEADING.match(line)
    return len(found[1]) if found else 0


def _plain(line: str) -> str:
    """The words of a line: no Markdown marks, nothing a terminal would obey."""
    return _printable(_MARKS.sub("", line, count=1)).replace("**", "").replace("`", "").strip(" *_")


def _quoted(line: str) -> str:
    return f"`{_cut(_printable(line).strip())}`"


def _printable(text: str) -> str:
    text = text[: 4 * _LONGEST_TITLE]
    return text if text.isprintable() else "".join(char if char.isprintable() else " " for char in text)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TITLE else text[: _LONGEST_TITLE - 1].rstrip() + "…"


def listing(notices: Iterable[Notice], most: int = 20) -> str:
    """Notices as indented lines for an error message."""
    rows = [f"  line {notice.line}: {notice.text}" for notice in notices]
    more = [f"  … and {len(rows) - most} more"] if len(rows) > most else []
    return "\n".join(rows[:most] + more)
