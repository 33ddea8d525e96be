"""Tokens and keys that are recognised by their form, whoever they belong to."""

from __future__ import annotations

import re
from collections.abc import Iterator

from segue.system.spellings import Span, view_folded

_WORD = "[A-Za-z0-9_-]"
_MARKED = {
    "sk-": rf"(?:(?:ant|proj|svcacct|admin|or-v1|lf)-{_WORD}{{20,}}|[A-Za-z0-9]{{32,}})",
    "[sr]k_": r"(?:live|test)_[A-Za-z0-9]{16,}",
    "gh[pousr]_": r"[A-Za-z0-9]{36,}",
    "github_pat_": r"[A-Za-z0-9_]{36,}",
    "glpat-": rf"{_WORD}{{20,}}",
    "npm_": r"[A-Za-z0-9]{36}",
    "pypi-": rf"AgEI{_WORD}{{50,}}",
    "hf_": r"[A-Za-z0-9]{34,}",
    "xox[abeoprs]-": r"[0-9]{6,}-[A-Za-z0-9-]{16,}",
}
_OTHERS = {
    r"hooks\.slack\.com/services/": r"T[A-Z0-9]{6,}/B[A-Z0-9]{6,}/[A-Za-z0-9]{16,}",
    "A(?:KIA|SIA)": r"[A-Z2-7]{16}(?![A-Z0-9])",
    "AIza": rf"{_WORD}{{35}}",
    "eyJ": rf"{_WORD}{{10,}}\.eyJ{_WORD}{{10,}}\.{_WORD}{{16,}}",
}
"""How tokens begin, and what follows."""

_TOKEN = re.compile(
    "|".join(
        # Within a hash or an encoded image it is a coincidence; the letter of an escaped line end is none.
        rf"{head}(?:(?<![A-Za-z0-9]{head})|(?<=\\[nrt]{head})){rest}"
        for head, rest in {**_MARKED, **_OTHERS}.items()
    )
)
_EDGE = r"[ \t|│\"'\\]{0,4}\n"
_HINT = re.compile(
    "|".join(
        [
            *(
                f"{mark}(?:{_WORD}{{16}}(?:"
                + "|".join(f"(?<={head}.{{16}})" for head in _MARKED if head[-1] == mark)
                + ")|(?:"
                + "|".join(f"(?<={head})" for head in _MARKED if head[-1] == mark)
                + f"){_WORD}{{0,15}}{_EDGE})"
                for mark in "_-"
            ),
            rf"/services/T|(?:AKIA|ASIA)(?:[A-Z2-7]|{_EDGE})|AIza",
            rf"J(?:{_WORD}{{10}}(?<=eyJ.{{10}})|(?<=eyJ){_WORD}{{0,9}}{_EDGE})",
            rf"m(?<=hooks\.slack\.com)/[a-z]{{0,8}}{_EDGE}",
        ]
    )
)
"""Something that every one of them has, from a character on that is rare: quick to look for.

It is the beginning of a token that is long enough, or goes to the end of a line.
"""

_FAKE = re.compile(r"(?i)example|placeholder|your[-_]?|x{8}|\*{4}|0{12}|1234567890abcdef")
_DIGIT = re.compile("[0-9]")
_FEW = 5
"""A token of so few different characters stands for one in a manual."""

_BEFORE, _AFTER = 32, 4096
"""How many characters around a hint may belong to a token."""

_KEY_HINT = "PRIVATE KEY"
_KEY = re.compile(r"-----(BEGIN|END) (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?(?:-----)?")
_KEY_LINE = re.compile(r"(?:[^A-Za-z0-9+/=]|\\{1,8}[nrt]){0,40}\+?[A-Za-z0-9+/=]{16,}")
_KEY_RUN = re.compile(r"[A-Za-z0-9+/=]{16,}")
_KEY_WORD = re.compile(r"[A-Za-z0-9+/=]+")
_BORDER = " \t\r\n|│#>*;,\"'\\-"
"""What may stand around a part of a key or a token."""

_KEY_CHARS = 40
"""How many characters of a key make it one."""

_PIECE = re.compile(r"[A-Za-z0-9]{12,}")
_CHANGE = re.compile(r"(?<=[a-z])[A-Z0-9]|(?<=[A-Z])[a-z0-9]|(?<=[0-9])[A-Za-z]")
_FIRST_LINES = 200
"""How many characters a text may go on with after the beginning of a key until it must look like one."""

_LONGEST = 16 * 1024
"""How many characters are held back at most."""


def hints_at_shape(text: str) -> bool:
    """Return whether a text may have a token or key; a quick look."""
    return _KEY_HINT in text or _HINT.search(text) is not None


def find_shapes(text: str) -> list[Span]:
    """Return where tokens and keys are, also where they go over several lines."""
    hints = [found.start() for found in _HINT.finditer(text)]
    spans = [span for region in _regions(text, hints) for span in _find_tokens(text, *region)]
    if _KEY_HINT in text:
        spans += _find_keys(text)
    return spans


def _regions(text: str, hints: list[int]) -> Iterator[Span]:
    """Yield the parts of a text around hints, those that touch as one."""
    begin = end = 0
    for hint in hints:
        if hint >= end:
            if end:
                yield begin, end
            begin = max(0, hint - _BEFORE)
        end = hint + _AFTER
    if end:
        yield begin, min(end, len(text))


def _find_tokens(text: str, begin: int, end: int) -> list[Span]:
    spans = [found.span() for found in _TOKEN.finditer(text, begin, end) if not _is_fake(found[0])]
    if spans and spans[-1][1] == end and (longer := _TOKEN.match(text, spans[-1][0])):
        spans[-1] = longer.span()
    return [*spans, *_find_folded(text, begin, end)]


def _is_fake(token: str) -> bool:
    """Return whether a token is one in a manual: it says so, or repeats itself, or consists of words."""
    is_words = token.islower() and not _DIGIT.search(token)
    return is_words or len(set(token[-16:])) < _FEW or _FAKE.search(token, 0, 32) is not None


def _find_folded(text: str, begin: int, end: int) -> list[Span]:
    """Return the tokens that show without line ends and what tables, comments and diffs add to them."""
    part = text[begin:end]
    if "\n" not in part:
        return []
    view = view_folded(part)
    spans = []
    for found in _TOKEN.finditer(view.text):
        first, last = view.span(*found.span())
        if "\n" in part[first:last] and not _is_fake(found[0]):
            spans.append((begin + first, begin + _trim(part, first, last)))
    return spans


def _trim(text: str, first: int, last: int) -> int:
    """Return where a token ends that seems to go into the next line: a plain word there is not its end."""
    line = text.rfind("\n", first, last)
    rest = re.sub(r"^\W+", "", text[line:last])
    if (
        rest.isalpha()
        and (rest.islower() or rest.istitle())
        and _TOKEN.match(view_folded(text[first:line]).text)
    ):
        return line
    return last


def _find_keys(text: str) -> list[Span]:
    """Return where private keys are, whatever each of their lines begins with, and also without their end."""
    edges = [(found.start(), found.end(), found[1]) for found in _KEY.finditer(text)]
    spans = []
    for place, (start, begin, kind) in enumerate(edges):
        stop, end, next_kind = edges[place + 1] if place + 1 < len(edges) else (len(text), len(text), "")
        if kind == "BEGIN" and next_kind == "END" and _is_body(text, begin, stop):
            spans.append((start, end))
        elif kind == "BEGIN" and (last := _read_body(text, begin, stop)):
            spans.append((start, last))
        elif kind == "END" and (place == 0 or edges[place - 1][2] == "END"):
            floor = edges[place - 1][1] if place else 0
            spans += [(first, begin)] if (first := _read_back(text, floor, start)) is not None else []
    return spans


def _read_back(text: str, floor: int, end: int) -> int | None:
    """Return where the lines of a key begin whose first ones were cut off."""
    first = line_end = text.rfind("\n", floor, end) + 1
    while line_end > floor:
        line_start = text.rfind("\n", floor, line_end - 1) + 1 or floor
        if not _KEY_WORD.fullmatch(text[line_start:line_end].strip(_BORDER)):
            break
        first = line_end = line_start
    return first if first < end and _is_body(text, first, end) else None


def _is_body(text: str, begin: int, end: int) -> bool:
    size = sum(found.end() - found.start() for found in _KEY_RUN.finditer(text, begin, end))
    return size >= _KEY_CHARS and 2 * size >= end - begin


def _read_body(text: str, begin: int, stop: int) -> int | None:
    """Return where the lines of a key end that was cut."""
    place = begin
    while found := _KEY_LINE.match(text, place, stop):
        place = found.end()
    return place if _is_body(text, begin, place) else None


def looks_random(word: str) -> bool:
    """Return whether a word was made by a machine: letters and digits change places all the time."""
    return any(
        sum(char.isdigit() for char in piece) >= 2 and 5 * len(_CHANGE.findall(piece)) >= len(piece)
        for piece in _PIECE.findall(word)
    )


def unfinished(text: str) -> int:
    """Return from where on a text may have the beginning of something secret that goes on in what follows."""
    edges = list(_KEY.finditer(text, max(0, len(text) - _LONGEST)))
    if edges and edges[-1][1] == "BEGIN":
        begin = edges[-1].end()
        if len(text) - begin < _FIRST_LINES or _is_body(text, begin, len(text)):
            return edges[-1].start()
    place = end = len(text)
    while (word := _last_word(text, end)) and (looks_random(word) or _HINT.search(f"{word}\n")):
        place = text.rindex(word, 0, end)
        end = text.rfind("\n", 0, place) + 1
        if not end or len(text) - end > _LONGEST:
            break
    # A token over several lines may have a line that does not look random by itself.
    tail, edge = max(0, len(text) - _LONGEST), len(text.rstrip(_BORDER))
    for begin, end in sorted(find_shapes(text[tail:]), reverse=True):
        if tail + end >= min(edge, place + 1):
            place = min(place, tail + begin)
    return place


def _last_word(text: str, end: int) -> str:
    words = text[max(0, end - _LONGEST) : end].rstrip(_BORDER).rsplit(None, 1)
    return words[-1] if words else ""
