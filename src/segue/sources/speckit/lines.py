"""The lines of a Spec Kit file: where each begins, whether it is read, and what its headings say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec import Struct

_FENCE = re.compile(r"\s*(`{3,}(?=[^`]*$)|~{3,})(.*)", re.DOTALL)
_CODE_SPAN = re.compile(r"`[^`]*`")
_HEADING = re.compile(r" {0,3}(#{1,6})(?=\s|$)(.*)", re.DOTALL)
_LIST_ITEM = re.compile(r"(\s*)(?:[-*+•]|[0-9]{1,9}[.)])\s+(?=\S)(.*)", re.DOTALL)

# In a heading the number is the stable part; the words are whatever language the team writes.
_WORDS = (
    r"user[ -]?stor(?:y|ies)|\bstory|用户故事|用戶故事|使用者故事|ユーザー?ストーリー|사용자 ?스토리"
    r"|유저 ?스토리|historia de usuario|historia del usuario|história d[eo] usuário|récit utilisateur"
    r"|histoire utilisateur|benutzergeschichte|anwendergeschichte|storia utente"
    r"|historyjka użytkownika|kullanıcı hikayesi|câu chuyện người dùng"
    r"|(?:пользовательская )?история(?: пользователя)?|เรื่องราวผู้ใช้|เรื่องราวของผู้ใช้"
)
_STORY_WORD = rf"(?:\bUS-?|(?i:{_WORDS})\s*[#№-]?\s*)"
_STORY_NUMBER = r"[0-9]{1,3}[a-z]?(?![A-Za-z0-9])"
_STORY = re.compile(
    rf"{_STORY_WORD}{_STORY_NUMBER}(?:\s*(?:[&+,/、]|and\b|und\b|et\b|y\b|e\b|и\b)\s*{_STORY_WORD}?{_STORY_NUMBER})*"
)
_NUMBER = re.compile(r"[0-9]{1,3}[a-z]?(?![A-Za-z0-9])")
_STARTS_STORY = re.compile(rf"[\W_]*(?:[0-9]+(?:\.[0-9]+)*[.)]?\s+)?(?={_STORY_WORD}{_STORY_NUMBER})")

_INDEPENDENT = re.compile(
    r"\s*(?:[-*+]\s+)?\*\*\s*(?:independent\s+test\w*|独立测试|独立測試|独立テスト|독립 테스트"
    r"|prueba independiente|teste independente|test indépendant|unabhängiger test|test indipendente"
    r"|независимый тест)[^*]{0,40}\*\*\s*[:：]?\s*(.*)",
    re.IGNORECASE | re.DOTALL,
)
_BOLD = re.compile(r"\s*(?:[-*+]\s+)?\*\*")

_LONGEST_TITLE = 80


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


class Heading(Struct, frozen=True):
    """A heading with its line and its level."""

    number: int
    level: int
    text: str


def read_lines(text: str) -> list[Line]:
    """All lines. Front matter, code blocks, comments and quotes are hidden."""
    # Only \n ends a line: splitlines() would also cut at form feeds and U+2028.
    raw = text.split("\n")
    hidden = list(_hidden(raw))
    lines, offset = [], 0
    for number, (line, block) in enumerate(zip(raw, hidden, strict=True), start=1):
        shown = line.removeprefix("\ufeff") if number == 1 else line
        size = len(line.encode())
        lines.append(Line(number, shown.removesuffix("\r"), offset + size - len(shown.encode()), block))
        offset += size + 1
    return lines


def unclosed(lines: Sequence[Line]) -> int:
    """The line of a code block or comment that is open at the end of the file, else 0."""
    # One more line would be hidden too.
    return list(_hidden([*(line.text for line in lines), ""]))[-1]


def heading(line: Line) -> Heading | None:
    """The heading on this line, if it is one and is to be read."""
    found = None if line.block or "#" not in line.text[:4] else _HEADING.match(line.text)
    return Heading(line.number, len(found[1]), found[2].strip().rstrip("#").strip()) if found else None


def list_item(line: Line) -> str | None:
    """Return the text after the bullet or the number; None if the line is not a list item."""
    found = None if line.block else _LIST_ITEM.match(line.text)
    return found[2] if found else None


def stories_in(text: str, at_start: bool = False) -> tuple[str, ...]:
    """The user stories that a heading or a label names, as `US1`."""
    if at_start:
        start = _STARTS_STORY.match(text)
        found = _STORY.match(text, start.end()) if start else None
    else:
        found = _STORY.search(text)
    numbers = _NUMBER.findall(found[0]) if found else []
    return tuple(dict.fromkeys(f"US{number.lstrip('0') or '0'}" for number in numbers))


def independent_test(lines: Sequence[Line], start: int) -> str:
    """Return the paragraph that begins at a line if it says how a story is tried out on its own."""
    found = None if lines[start].block else _INDEPENDENT.match(lines[start].text)
    if found is None:
        return ""
    told = [found[1].strip()]
    for line in islice(lines, start + 1, None):
        if not line.block and (not line.text.strip() or _BOLD.match(line.text) or heading(line)):
            break
        told.append(line.text.rstrip())
    return "\n".join(told).strip()


def plain(text: str) -> str:
    """One printable line without Markdown's marks, cut to the length of a title."""
    text = text.replace("**", "").replace("~~", "").replace("`", "")[: 4 * _LONGEST_TITLE]
    if not text.isprintable():
        text = "".join(char if char.isprintable() else " " for char in text)
    words = " ".join(text.split()).strip(" *")
    return words if len(words) <= _LONGEST_TITLE else words[: _LONGEST_TITLE - 1].rstrip() + "…"


def _hidden(raw: Sequence[str]) -> Iterator[int]:
    """For each line, the number of the line that opened the block it is hidden by, else 0."""
    front = _front_matter(raw)
    yield from (1 for _ in range(front))
    fence, opened = "", 0
    for index in range(front, len(raw)):
        line, number = raw[index], index + 1
        if opened:
            yield opened
            still_open = not _closes(line, fence) if fence else not _ends_comment(line)
            opened = opened if still_open else 0
        elif line.lstrip().startswith(">"):
            yield number
        elif found := _FENCE.match(line):
            yield number
            fence, opened = found[1], number
        elif line.lstrip().startswith("<!--"):
            yield number
            fence, opened = "", 0 if _ends_comment(line) else number
        else:
            yield 0
            fence, opened = "", number if _opens_comment(raw, index) else 0


def _front_matter(raw: Sequence[str]) -> int:
    """Return the number of lines of front matter at the start."""
    if raw[0].removeprefix("\ufeff").rstrip() != "---":
        return 0
    ends = (n for n in range(1, len(raw)) if raw[n].rstrip() in ("---", "..."))
    return next(ends, -1) + 1


def _closes(line: str, fence: str) -> bool:
    found = _FENCE.match(line)
    return found is not None and found[1].startswith(fence) and not found[2].strip()


def _ends_comment(line: str) -> bool:
    return line.rfind("-->") > line.rfind("<!--")


def _opens_comment(raw: Sequence[str], index: int) -> bool:
    """A comment that begins inside a line hides the next ones only if its paragraph closes it."""
    if "<!--" not in raw[index] or _ends_comment(raw[index]):
        return False
    if "<!--" not in _CODE_SPAN.sub("", raw[index]):
        return False
    for line in raw[index + 1 :]:
        if "-->" in line or not line.strip():
            return bool(line.strip())
    return False
