"""The lines of a Markdown file: where each begins, whether it is read, and what its headings say."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from segue.domain.errors import SourceError

_END = re.compile(r"\r\n|\n|\r")
_FENCE = re.compile(r"\s*(`{3,}(?=[^`]*$)|~{3,})(.*)", re.DOTALL)
_CODE_SPAN = re.compile(r"`[^`]*`")
_HEADING = re.compile(r" {0,3}(#{1,6})(?=\s|$)(.*)", re.DOTALL)
_LIST_ITEM = re.compile(r"(\s*)(?:[-*+•]|[0-9]{1,9}[.)])\s+(?=\S)(.*)", re.DOTALL)
_MARKS = re.compile(r"[\s#>*+_`~-]*(?:[0-9]{1,9}[.)]\s+)?(?:\[[ xX]\]\s+)?[\s*_`~]*")
_LONGEST_TITLE = 80

_READABLE = {
    0xDC00 + byte: bytes([byte]).decode("cp1252", "replace").replace("\ufffd", "?")
    for byte in range(0x80, 0x100)
}


def decode(data: bytes, name: str) -> str:
    """Return the text of a file. A byte that is not UTF-8 stays what it is, as a lone surrogate."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise SourceError(
            f"{name} is UTF-16, not UTF-8.",
            kept="Nothing was changed.",
            hint="Save the file as UTF-8, for example with `iconv -f UTF-16 -t UTF-8`.",
        )
    return data.decode("utf-8", "surrogateescape")


def readable(text: str) -> str:
    """Return the text with bytes that are not UTF-8 as the letters they are in Western files."""
    return text.translate(_READABLE)


def find_bad_byte(data: bytes) -> tuple[int, int] | None:
    """Return the line and the offset of the first byte that is not UTF-8."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return data.count(b"\n", 0, error.start) + 1, error.start
    return None


class Line(Struct, frozen=True):
    """One line without its end; `block` is the line that opened what hides it, 0 if it is to be read."""

    number: int
    text: str
    offset: int
    """The start of its text, in bytes from the start of the file."""
    block: int = 0

    @property
    def indent(self) -> int:
        """The number of columns it is indented."""
        text = self.text.expandtabs(4)
        return len(text) - len(text.lstrip())

    def byte(self, column: int) -> int:
        """Return where a column is, in bytes from the start of the file."""
        return self.offset + _size(self.text[:column])


class Heading(Struct, frozen=True):
    """A heading with its line and its level."""

    number: int
    level: int
    text: str


def split_lines(text: str) -> list[str]:
    """Return the lines without their ends, which are LF, CRLF or CR."""
    # Not splitlines(): it would also cut at form feeds and U+2028.
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.split("\n")


def read_lines(text: str) -> list[Line]:
    """Return all lines. Front matter, code blocks, comments and quotes are hidden."""
    raw = split_lines(text)
    ends = [*map(len, _END.findall(text)), 0]
    lines, offset = [], 0
    for number, (line, end, block) in enumerate(zip(raw, ends, hidden_by(raw), strict=True), start=1):
        shown = line.removeprefix("\ufeff") if number == 1 else line
        size = _size(line)
        lines.append(Line(number, shown, offset + size - _size(shown), block))
        offset += size + end
    return lines


def unclosed(lines: Sequence[Line]) -> int:
    """Return the line of a code block or comment that is open at the end of the file, else 0."""
    # One more line would be hidden too.
    return hidden_by([*(line.text for line in lines), ""])[-1]


def heading(line: Line) -> Heading | None:
    """Return the heading on this line, if it is one and is to be read."""
    found = None if line.block else split_heading(line.text)
    return Heading(line.number, *found) if found else None


def split_heading(text: str) -> tuple[int, str] | None:
    """Return the level and the words of a heading; None if the line is none."""
    found = _HEADING.match(text) if "#" in text[:4] else None
    return (len(found[1]), found[2].strip().rstrip("#").strip()) if found else None


def list_item(line: Line) -> str | None:
    """Return the text after the bullet or the number; None if the line is not a list item."""
    found = None if line.block else _LIST_ITEM.match(line.text)
    return found[2] if found else None


def plain(text: str) -> str:
    """Return one printable line without Markdown's marks, cut to the length of a title."""
    text = readable(text.replace("**", "").replace("~~", "").replace("`", "")[: 4 * _LONGEST_TITLE])
    if not text.isprintable():
        text = "".join(char if char.isprintable() else " " for char in text)
    words = " ".join(text.split()).strip(" *")
    return words if len(words) <= _LONGEST_TITLE else words[: _LONGEST_TITLE - 1].rstrip() + "…"


def without_marks(line: str) -> str:
    """Return the words of a line without the bullet, number, box or hashes in front of them."""
    return _MARKS.sub("", line, count=1)


def hidden_by(raw: Sequence[str]) -> list[int]:
    """Return for each line the number of the line that opened the block it is hidden by, else 0."""
    found = [0] * len(raw)
    front = _front_matter(raw)
    found[:front] = [1] * front
    fence, opened, comments = "", 0, _Comments(raw)
    for index in range(front, len(raw)):
        line = raw[index]
        start = line[:1] if line[:1] not in " \t" else line.lstrip()[:1]
        if opened:
            found[index] = opened
            still_open = not _closes(line, fence) if fence else not _ends_comment(line)
            opened = opened if still_open else 0
        elif start == ">":
            found[index] = index + 1
        elif start in ("`", "~") and (opening := _FENCE.match(line)):
            found[index] = opened = index + 1
            fence = opening[1]
        elif start == "<" and line.lstrip().startswith("<!--"):
            found[index] = index + 1
            fence, opened = "", 0 if _ends_comment(line) else index + 1
        elif "<!--" in line and comments.begin(index):
            fence, opened = "", index + 1
    return found


class _Comments:
    """Tells which comments that begin inside a line hide the next lines."""

    def __init__(self, raw: Sequence[str]) -> None:
        self._raw = raw
        self._end = 0

    def begin(self, index: int) -> bool:
        """Return whether the comment on this line is closed later in its paragraph."""
        line = self._raw[index]
        if _ends_comment(line) or "<!--" not in _CODE_SPAN.sub("", line):
            return False
        end = max(self._end, index + 1)
        while end < len(self._raw) and self._raw[end].strip() and "-->" not in self._raw[end]:
            end += 1
        self._end = end
        return end < len(self._raw) and "-->" in self._raw[end]


def _front_matter(raw: Sequence[str]) -> int:
    """Return the number of lines of front matter at the start."""
    if raw[0].removeprefix("\ufeff").rstrip() != "---":
        return 0
    ends = (n for n in range(1, len(raw)) if raw[n].rstrip() in ("---", "..."))
    return next(ends, -1) + 1


def _closes(line: str, fence: str) -> bool:
    found = _FENCE.match(line) if fence[0] in line else None
    return found is not None and found[1].startswith(fence) and not found[2].strip()


def _ends_comment(line: str) -> bool:
    return line.rfind("-->") > line.rfind("<!--")


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))
