"""The shapes in which Markdown files list tasks: boxes, headings, rows of tables, and plain list items."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from segue.sources.markdown.ids import Named, named, named_in_heading
from segue.sources.markdown.lines import Heading, Line, find_words, heading
from segue.sources.markdown.marks import SIGN, Mark, box_mark, find_mark, no_mark, without_mark, word_mark

_BULLET = r"(?:[-*+•–·▪◦]|[0-9]{1,9}[.)])"
# `[P]` is Spec Kit's label for tasks that may be done in parallel, never a box.
_BOX = re.compile(rf"(\s*){_BULLET}\s+\[([^\[\]P])\]\s+(?=\S)(.*)", re.DOTALL)
# As people mistype it: `- [] T001`, `-[ ] T003`, `- [ ]T004`, `[ ] T005`, `- [x ] T006`. It needs an id.
_LOOSE_BOX = re.compile(rf"\s*(?:{_BULLET}\s*)?\[(\s*(?:[^\[\]\sP]\s*)?)\]\s*(?=\S)(.*)", re.DOTALL)
_ITEM = re.compile(rf"\s*({_BULLET}\s+)?(?=\S)(.*)", re.DOTALL)
_HEADING_BOX = re.compile(rf"(?:{_BULLET}\s*)?\[(\s*(?:[^\[\]\sP]\s*)?)\]\s*(?=\S)")
_NOTE = re.compile(
    r"\s*(?:>|(?=\*\*(?:NOTE|IMPORTANT|CRITICAL|TDD)\b)|(?=⚠))\s*(.*\btests?\b.*)", re.IGNORECASE
)
_STATUS_COLUMN = find_words("status column")
_TITLE_COLUMN = find_words("title column")
_SEPARATOR = re.compile(r"[\s|:-]+")
_CELL = re.compile(r"(?:[^|\\]|\\.)+")
_RELATES = re.compile(
    r"\W*(?:→|->|=>|⟶)|\s*(?:,|&|\+|and\b|or\b|through\b|to\b|(?:un)?blocks?\b|depends?\b|must\b|can\b|may\b|before\b|after\b"
    r"|requires?\b|is\b|are\b|should\b|needs\b|waits?\b|\()"
)
_EMPTY = re.compile(r"\[\s*\]|\(\s*\)")
_BARE = re.compile(rf"(?:[*_`~\s]|{SIGN.pattern})*T(?:ASK-)?-?[0-9]")


class Shape(Enum):
    """How a task is written; the value names many of them."""

    BOX = "boxes"
    HEADING = "headings"
    ROW = "rows of a table"
    ITEM = "list items without a box"


class TaskLine(Struct, frozen=True):
    """A line that may be a task, under the headings that stand above it."""

    shape: Shape
    line: Line
    indent: int
    rest: str
    """Its words without the mark."""
    named: Named | None
    mark: Mark
    headings: tuple[Heading, ...]
    note: str = ""
    loose: bool = False
    """True if it is mistyped, but clear."""
    more: tuple[str, ...] = ()
    """What the other columns of its row say."""

    @property
    def id(self) -> str:
        """The id, or nothing."""
        return self.named.id if self.named else ""

    @property
    def level(self) -> int:
        """The level of its own heading; 7, below all headings, if it is none."""
        return self.headings[-1].level if self.shape is Shape.HEADING else 7


def read_task_lines(lines: Sequence[Line]) -> list[TaskLine]:
    """Return every line that may be a task, in order. Which of them are is for others to say."""
    return list(_task_lines(lines))


def _task_lines(lines: Sequence[Line]) -> Iterator[TaskLine]:
    above: tuple[Heading, ...] = ()
    note, table, before = "", None, ""
    for line in lines:
        if not note and (marked := _NOTE.match(line.text)):
            note = " ".join(marked[1].replace("**", "").split())[:200]
        if line.block:
            continue
        found: TaskLine | None = None
        if head := heading(line):
            above = (*(other for other in above if other.level < head.level), head)
            note = ""
            found = _read_heading(line, above)
        elif line.text.lstrip().startswith("|"):
            table = table or _Table(line)
            found = table.read(line, above, note)
        else:
            found = _read_box(line, above, note) or _read_item(line, above, note, before)
        if not line.text.lstrip().startswith("|"):
            table = None
        before = line.text
        if found:
            yield found


def _read_box(line: Line, above: tuple[Heading, ...], note: str) -> TaskLine | None:
    if "[" not in line.text:
        return None
    if found := _BOX.match(line.text):
        rest, mark = found[3].rstrip(), box_mark(line, found.start(2), found[2])
        return TaskLine(Shape.BOX, line, line.indent, rest, named(rest), mark, above, note)
    loose = _LOOSE_BOX.match(line.text)
    if loose is None:
        return None
    rest = loose[2].rstrip()
    known = named(rest)
    if known is None or re.search(r"\w", known.before):
        return None
    mark = box_mark(line, loose.start(1), loose[1])
    return TaskLine(Shape.BOX, line, line.indent, rest, known, mark, above, note, loose=True)


def _read_heading(line: Line, above: tuple[Heading, ...]) -> TaskLine | None:
    words = above[-1].text
    start = line.text.index(words) if words else 0
    box = _HEADING_BOX.match(words)
    rest = words[box.end() :] if box else words
    known = named_in_heading(rest)
    if known is None:
        return None
    column = start + len(words) - len(rest)
    if box:
        mark = box_mark(line, start + box.start(1), box[1])
    else:
        mark = _inline_mark(line, column, start + len(words), known) or no_mark(line, column)
        rest = _without(line, mark, column, start + len(words))
        known = named_in_heading(rest) or known
    return TaskLine(Shape.HEADING, line, 0, rest, known, mark, above)


def _read_item(line: Line, above: tuple[Heading, ...], note: str, before: str) -> TaskLine | None:
    """Read a list item with an id, or a line that begins with one and does not continue a sentence."""
    found = _ITEM.match(line.text)
    known = named(found[2].rstrip()) if found and "T" in found[2] else None
    if found is None or known is None or not known.id.startswith("T"):
        return None
    rest = found[2].rstrip()
    if _RELATES.match(rest, known.end):
        return None
    if not found[1] and not (line.indent < 4 and _BARE.match(rest) and _ends_sentence(before)):
        return None
    start = found.start(2)
    end = start + len(rest)
    mark = _inline_mark(line, start, end, known) or no_mark(line, start)
    words = _without(line, mark, start, end)
    return TaskLine(Shape.ITEM, line, line.indent, words, named(words) or known, mark, above, note)


def _ends_sentence(before: str) -> bool:
    """Return whether the line after this one is not the rest of its sentence."""
    return not before.strip() or before.startswith("#") or _BARE.match(before) is not None


class _Table:
    """A table: its first row says what the columns are."""

    def __init__(self, head: Line) -> None:
        names = [head.text[a:b] for a, b in _cells(head.text)]
        has_head = not any(map(named, names))
        self._names = names if has_head else []
        self._head = head.number if has_head else 0

    def read(self, line: Line, above: tuple[Heading, ...], note: str) -> TaskLine | None:
        """Read a row with an id in one of its first columns."""
        if line.number == self._head or _SEPARATOR.fullmatch(line.text):
            return None
        cells = _cells(line.text)
        for place, (start, end) in enumerate(cells[:3]):
            known = named(line.text[start:end])
            if known and known.id.startswith("T") and not _RELATES.match(line.text[start:end], known.end):
                return self._task(line, above, note, cells, place, known)
        return None

    def _task(
        self,
        line: Line,
        above: tuple[Heading, ...],
        note: str,
        cells: list[tuple[int, int]],
        place: int,
        known: Named,
    ) -> TaskLine:
        start, end = cells[place]
        column = self._column(_STATUS_COLUMN, cells, place)
        mark = word_mark(line, *cells[column]) if column is not None else None
        mark = mark or _inline_mark(line, start, end, known) or no_mark(line, start)
        words = _without(line, mark, start, end)
        title = self._column(_TITLE_COLUMN, cells, place)
        if title is None or title == column:
            title = next((n for n in range(place + 1, len(cells)) if n != column), None)
        if title is not None:
            words = f"{words} {line.text[slice(*cells[title])]}".strip()
        others = [n for n in range(len(cells)) if n not in (place, column, title)]
        more = tuple(
            f"{self._names[n]}: {line.text[slice(*cells[n])]}"
            if n < len(self._names)
            else line.text[slice(*cells[n])]
            for n in others
            if line.text[slice(*cells[n])]
        )
        return TaskLine(
            Shape.ROW, line, line.indent, words, named(words) or known, mark, above, note, more=more
        )

    def _column(self, pattern: re.Pattern[str], cells: list[tuple[int, int]], place: int) -> int | None:
        """Return the first column whose name fits, but not the one of the id."""
        named_so = (n for n, name in enumerate(self._names[: len(cells)]) if pattern.search(name))
        return next((n for n in named_so if n != place), None)


def _cells(text: str) -> list[tuple[int, int]]:
    """Return where the cells of a row begin and end, without the blanks around them."""
    found, start = [], text.index("|") + 1
    inner = text[:start] + text[start:].rstrip().removesuffix("|")
    while start <= len(inner):
        content = _CELL.match(inner, start)
        end = content.end() if content else start
        left = start + len(inner[start:end]) - len(inner[start:end].lstrip())
        found.append((min(left, end), left + len(inner[left:end].rstrip()) if left < end else min(left, end)))
        start = end + 1
    return found


def _inline_mark(line: Line, start: int, end: int, known: Named) -> Mark | None:
    """Return the mark before the id, right after it, or at the end of the words."""
    after = start + known.end
    before = find_mark(line, start, after)
    if before is not None:
        return before
    mark = find_mark(line, after, end)
    if mark is None:
        return None
    left = without_mark(line, replace(mark, end=line.byte(end)), after, end)
    right = without_mark(line, replace(mark, start=line.byte(after)), after, end)
    is_at_an_end = not re.search(r"\w", left) or not re.search(r"\w", right)
    return mark if is_at_an_end else None


def _without(line: Line, mark: Mark, start: int, end: int) -> str:
    """Return the words of a task without its mark, and without the brackets that were around it."""
    words = without_mark(line, mark, start, end)
    return words if words == line.text[start:end] else " ".join(_EMPTY.sub("", words).split())
