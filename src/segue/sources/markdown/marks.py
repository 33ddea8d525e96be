"""The marks that say whether a task is done: boxes, signs and words, and how each is changed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from enum import Enum, auto

from msgspec import Struct

from segue.domain.task import TaskStatus
from segue.sources.markdown.lines import Line

_DONE_SIGNS = "✅☑✔✓√"
_OPEN_SIGNS = "⬜☐◻▢🔲⏳⌛🔄🚧❌"
SIGN = re.compile(rf"[{_DONE_SIGNS}{_OPEN_SIGNS}]\ufe0f?")
_BOX = re.compile(r"\[(\s*(?:[xX✓✔☑✅√-]\s*)?)\](?![(\[])")
_SAID = re.compile(
    r"[\[(]\s*\**((?i:done|completed?|finished|todo|open|pending|not started|in progress))\**\s*[\])]\s*$"
)
_STATUS_LINE = re.compile(
    r"\s*(?:[-*+]\s+)?[*_]*(?i:status|state|状态|ステータス|상태|estado|statut|stato|статус)[*_]*\s*[:：][*_]*\s*(.*)"
)
_NOT_YET = re.compile(
    r"\b(?:not|un|in)[ -]|\bno\b|未|\b(?!100\b)[0-9]{1,2}\s?%|\b(?:pending|todo|open|partial)", re.IGNORECASE
)
_DONE_WORDS = re.compile(
    r"\b(?:done|completed?|finished|closed|implemented|merged|shipped|yes|fertig|erledigt|hecho|completad[ao]"
    r"|terminé|fatto|completat[ao]|conclu[ií]d[ao]|feito|готово|выполнено)\b|完成|完了|완료|100\s?%",
    re.IGNORECASE,
)
_SKIP_WORDS = re.compile(r"\b(?:skipped|deferred|n/a|won'?t (?:do|fix))(?!\w)", re.IGNORECASE)
_DROP_WORDS = re.compile(r"\b(?:cancell?ed|dropped|removed|obsolete|deleted)\b", re.IGNORECASE)


class Form(Enum):
    """What a mark looks like."""

    BOX = auto()
    SIGN = auto()
    WORD = auto()
    NONE = auto()
    """The task has no mark; one would be written where its id begins."""


class Mark(Struct, frozen=True):
    """The bytes of a file that say whether a task is done."""

    form: Form
    text: str
    start: int
    end: int

    @property
    def status(self) -> TaskStatus:
        """What it says."""
        if self.form is Form.BOX:
            return _BOXES.get(self.text.strip(), TaskStatus.CANCELLED)
        if self.form is Form.WORD:
            return _status_of_words(self.text)
        return TaskStatus.DONE if self.text[:1] and self.text[0] in _DONE_SIGNS else TaskStatus.PENDING


_BOXES = {
    "": TaskStatus.PENDING,
    "-": TaskStatus.SKIPPED,
    **dict.fromkeys(["x", "X", "✓", "✔", "☑", "✅", "√"], TaskStatus.DONE),
}


def _status_of_words(text: str) -> TaskStatus:
    if _SKIP_WORDS.search(text):
        return TaskStatus.SKIPPED
    if _DROP_WORDS.search(text):
        return TaskStatus.CANCELLED
    if _NOT_YET.search(text):
        return TaskStatus.PENDING
    sign = SIGN.search(text)
    if _DONE_WORDS.search(text) or (sign and sign[0][0] in _DONE_SIGNS) or text.strip("[] ") in ("x", "X"):
        return TaskStatus.DONE
    return TaskStatus.PENDING


def box_mark(line: Line, start: int, inside: str) -> Mark:
    """Return the mark of a box by the column after its bracket: the one character in it, if there is one."""
    stripped = inside.strip()
    first = start + (inside.index(stripped) if stripped else 0)
    text = stripped or inside[:1]
    return Mark(Form.BOX, text, line.byte(first), line.byte(first + len(text)))


def find_mark(line: Line, start: int, end: int | None = None) -> Mark | None:
    """Return a box, a sign or a word in a part of a line that has no box in front."""
    text = line.text[:end]
    if found := _BOX.search(text, start):
        return box_mark(line, found.start(1), found[1])
    if found := SIGN.search(text, start):
        return Mark(Form.SIGN, found[0], line.byte(found.start()), line.byte(found.end()))
    if found := _SAID.search(text, start):
        return Mark(Form.WORD, found[1], line.byte(found.start(1)), line.byte(found.end(1)))
    return None


def status_line(line: Line) -> Mark | None:
    """Return the mark on a line such as `**Status**: Pending`."""
    found = None if line.block else _STATUS_LINE.match(line.text)
    return word_mark(line, found.start(1), found.start(1) + len(found[1].rstrip())) if found else None


def word_mark(line: Line, start: int, end: int) -> Mark:
    """Return the mark in the cell of a table or after `Status:`, which may contain a box."""
    if found := _BOX.fullmatch(line.text, start, end):
        return box_mark(line, found.start(1), found[1])
    return Mark(Form.WORD, line.text[start:end], line.byte(start), line.byte(end))


def without_mark(line: Line, mark: Mark, start: int = 0, end: int | None = None) -> str:
    """Return a part of a line without the mark: its words stay the same when the mark changes."""
    left, right = mark.start - line.byte(start), mark.end - line.byte(start)
    part = line.text[start:end]
    data = part.encode("utf-8", "surrogateescape")
    if not mark.text or not 0 <= left <= right <= len(data):
        return part
    return (data[:left] + data[right:]).decode("utf-8", "surrogateescape")


def no_mark(line: Line, column: int) -> Mark:
    """Return the mark of a task without one: it would be written at this column."""
    place = line.byte(column)
    return Mark(Form.NONE, "", place, place)


def change(mark: Mark, done: bool, others: Iterable[Mark]) -> str:
    """Return what to write in the place of a mark, as the other marks of the file have it."""
    wanted = TaskStatus.DONE if done else TaskStatus.PENDING
    same = [m for m in others if m.status is wanted and m.text.strip()]
    usual = {form: Counter(m.text for m in same if m.form is form).most_common(1) for form in Form}
    if mark.form is Form.BOX:
        if not done:
            return " "
        return "X" if any(m.text == "X" for m in same) else "x"
    if mark.form is Form.NONE:
        sign = usual[Form.SIGN]
        if not done:
            return ""
        return f"{sign[0][0]} " if sign else "[x] "
    if usual[mark.form]:
        return usual[mark.form][0][0]
    if mark.form is Form.SIGN:
        return {"☐": "☑", "☑": "☐"}.get(mark.text[0], "✅" if done else "⬜")
    return _word(mark.text, done)


def _word(text: str, done: bool) -> str:
    sign = SIGN.search(text)
    word = "Done" if done else "Pending"
    if not text or (sign and not any(map(str.isalpha, text))):
        return "✅" if done else "⬜"
    if text.isupper() or text.islower():
        word = word.upper() if text.isupper() else word.lower()
    return f"{'✅' if done else '⬜'} {word}" if sign else word
