"""The boxes in a Markdown file, `- [ ] T001 What to do`: what they say, and how they are ticked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from segue.domain.task import TaskStatus
from segue.sources.markdown.ids import Named, named
from segue.sources.markdown.lines import Heading, Line, heading

_BULLET = r"(?:[-*+•–·▪◦]|[0-9]{1,9}[.)])"
# `[P]` is Spec Kit's label for tasks that may be done in parallel, never a box.
_BOX = re.compile(rf"(\s*){_BULLET}\s+\[([^\[\]P])\]\s+(?=\S)(.*)", re.DOTALL)
# As people mistype it: `- [] T001`, `-[ ] T003`, `- [ ]T004`, `[ ] T005`, `- [x ] T006`. It needs an id.
_LOOSE = re.compile(rf"\s*(?:{_BULLET}\s*)?\[(\s*(?:[^\[\]\sP]\s*)?)\]\s*(?=\S)(.*)", re.DOTALL)
_NOTE = re.compile(
    r"\s*(?:>|(?=\*\*(?:NOTE|IMPORTANT|CRITICAL|TDD)\b)|(?=⚠))\s*(.*\btests?\b.*)", re.IGNORECASE
)


class Mark(Struct, frozen=True):
    """The bytes of a file that say whether a task is done."""

    text: str
    start: int
    end: int

    @property
    def status(self) -> TaskStatus:
        """What it says."""
        return _STATUS.get(self.text.strip(), TaskStatus.CANCELLED)


_STATUS = {
    "": TaskStatus.PENDING,
    "-": TaskStatus.SKIPPED,
    **dict.fromkeys(["x", "X", "✓", "✔", "☑", "✅", "√"], TaskStatus.DONE),
}


class Box(Struct, frozen=True):
    """A line with a box, under the headings above it."""

    line: Line
    indent: int
    rest: str
    """Its words without the mark."""
    named: Named | None
    mark: Mark
    headings: tuple[Heading, ...]
    note: str = ""
    """What is said about tests between the nearest heading and it."""
    loose: bool = False
    """True if it is mistyped, but clear."""

    @property
    def id(self) -> str:
        """The id, or nothing."""
        return self.named.id if self.named else ""


def read_boxes(lines: Sequence[Line]) -> Iterator[Box]:
    """Yield every box, in order. Which of them are tasks is for others to say."""
    above: tuple[Heading, ...] = ()
    note = ""
    for line in lines:
        if not note and (marked := _NOTE.match(line.text)):
            note = " ".join(marked[1].replace("**", "").split())[:200]
        if line.block:
            continue
        if head := heading(line):
            above = (*(other for other in above if other.level < head.level), head)
            note = ""
        elif found := _read_box(line, above, note):
            yield found


def change_mark(done: bool, others: Iterable[Mark]) -> str:
    """Return what to write in the place of a mark, as the other boxes of the file have it."""
    if not done:
        return " "
    return "X" if any(other.text == "X" for other in others) else "x"


def _read_box(line: Line, above: tuple[Heading, ...], note: str) -> Box | None:
    if "[" not in line.text:
        return None
    if found := _BOX.match(line.text):
        rest = found[3].rstrip()
        return Box(line, line.indent, rest, named(rest), _mark(line, found.start(2), found[2]), above, note)
    loose = _LOOSE.match(line.text)
    if loose is None:
        return None
    rest = loose[2].rstrip()
    known = named(rest)
    if known is None or re.search(r"\w", known.before):
        return None
    mark = _mark(line, loose.start(1), loose[1])
    return Box(line, line.indent, rest, known, mark, above, note, loose=True)


def _mark(line: Line, start: int, inside: str) -> Mark:
    """Return the mark of a box by the column after its bracket: the one character in it, if there is one."""
    stripped = inside.strip()
    first = start + (inside.index(stripped) if stripped else 0)
    text = stripped or inside[:1]
    return Mark(text, line.byte(first), line.byte(first + len(text)))
