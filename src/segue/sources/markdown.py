"""The lines of a Markdown file: its headings, its boxes, and what code and comments hide."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from segue.domain.errors import SourceError

BOX = re.compile(r"([ \t]*)(?:[-*+]|[0-9]{1,9}[.)])[ \t]+\[([ xX~-])\][ \t]+(\S.*)")
"""Indentation, mark and words of a box, `- [ ] What to do`."""
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$")
_ENDS = re.compile(r"\r\n|\r|\n")
_HIDES = ("```", "~~~", "<!--")
_MARKS = re.compile(r"[\s>*+_`~-]*(?:[0-9]{1,9}[.)]\s+)?(?:\[[ xX]\]\s+)?[\s*_`~]*")
_LONGEST_TITLE = 80


class Heading(Struct, frozen=True):
    """A heading with its line, counted from 0."""

    line: int
    level: int
    text: str


class Markdown(Struct, frozen=True):
    """A Markdown file, line by line."""

    lines: tuple[str, ...]
    hidden: frozenset[int]
    """The lines that are code, comments or front matter, counted from 0."""
    headings: tuple[Heading, ...]

    @classmethod
    def read(cls, text: str) -> Markdown:
        """Read a file; a byte order mark is no part of it."""
        # Not splitlines(): it would also cut at form feeds and U+2028.
        lines = tuple(_ENDS.split(text.removeprefix("\ufeff")))
        hidden = _find_hidden(lines)
        heads = (
            Heading(number, len(found[1]), (found[2] or "").strip().rstrip("#").strip())
            for number, line in enumerate(lines)
            if "#" in line[:4] and number not in hidden and (found := _HEADING.match(line))
        )
        return cls(lines, hidden, tuple(heads))

    def boxes(self) -> Iterator[tuple[int, re.Match[str]]]:
        """Yield every box that is not hidden, with its line."""
        for number, line in enumerate(self.lines):
            if "[" in line and number not in self.hidden and (found := BOX.match(line)):
                yield number, found

    def above(self, line: int, level: int = 7) -> tuple[Heading, ...]:
        """Return the headings that a line is below, the outermost first, as far as they are above a level."""
        found: list[Heading] = []
        for head in self.headings:
            if head.line >= line:
                break
            found = [*(other for other in found if other.level < head.level), head]
        return tuple(head for head in found if head.level < level)

    def section(self, head: Heading) -> Sequence[str]:
        """Return the lines below a heading, up to the next one of its level or above."""
        ends = (other.line for other in self.headings if other.line > head.line and other.level <= head.level)
        return self.lines[head.line + 1 : next(ends, len(self.lines))]


def decode(data: bytes, name: str, problem: str = "") -> str:
    """Return the text of a file; raises SourceError for what is not UTF-8, beginning with the `problem`."""
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        said = f"{name} is not UTF-8: byte {error.start} (line {line}) cannot be read."
    else:
        if "\0" not in text:
            return text
        said = f"{name} is not a text."
    raise SourceError(
        f"{problem} {said}".strip(), kept="Nothing was changed.", hint="Name a Markdown file, saved as UTF-8."
    )


def plain(text: str) -> str:
    """Return one printable line without Markdown's marks, cut to the length of a title."""
    text = text.replace("**", "").replace("~~", "").replace("`", "")[: 4 * _LONGEST_TITLE]
    words = " ".join("".join(char if char.isprintable() else " " for char in text).split()).strip(" *")
    return words if len(words) <= _LONGEST_TITLE else words[: _LONGEST_TITLE - 1].rstrip() + "…"


def without_marks(line: str) -> str:
    """Return the words of a line without the bullet, number or box in front of them."""
    return _MARKS.sub("", line, count=1)


def strip_blank(lines: Sequence[str]) -> str:
    """Return lines as a text, without blank ones at either end."""
    numbers = [number for number, line in enumerate(lines) if line.strip()]
    return "\n".join(lines[numbers[0] : numbers[-1] + 1]) if numbers else ""


def _find_hidden(lines: Sequence[str]) -> frozenset[int]:
    front = _front_matter(lines)
    hidden = set(range(front))
    text = "\n".join(lines[front:])
    if any(sign in text for sign in _HIDES):
        from markdown_it import MarkdownIt  # most files have neither code nor comments

        parser = MarkdownIt("commonmark")
        parser.core.ruler.enableOnly(["normalize", "block"])
        for token in parser.parse(text):
            is_comment = token.type == "html_block" and token.content.lstrip().startswith("<!--")
            if token.map and (is_comment or token.type in ("fence", "code_block")):
                hidden.update(range(front + token.map[0], front + token.map[1]))
    return frozenset(hidden)


def _front_matter(lines: Sequence[str]) -> int:
    """Return the number of lines of front matter at the start."""
    if lines[0].rstrip() != "---":
        return 0
    ends = (number for number in range(1, len(lines)) if lines[number].rstrip() in ("---", "..."))
    return next(ends, -1) + 1
