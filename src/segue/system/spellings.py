"""The spellings that programs give a text: escapes that can be undone, encodings that can be listed.

`decode` undoes URL quoting, HTML entities and the escapes of JSON and shells, whatever parts of a text have
them. What has only a few forms (base64, hex) is listed by `spell`; `unpack` finds what is encoded and shows
what it stands for, which is searched as any other text is. All of this is linear in the text.
"""

from __future__ import annotations

import base64
import binascii
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from string import ascii_letters, digits, hexdigits
from typing import NamedTuple

Span = tuple[int, int]
"""Where something begins and ends in a text."""

_LONG = 16
"""How long a secret is that is found by decoding what surrounds it; the encodings of others are listed."""

_ROUNDS = 3
"""How often escapes are undone: an agent's line has a tool's JSON, which may have another program's."""

INVISIBLE = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f"
    r"\ufeff\ud800-\udfff\U000e0000-\U000e01ef"
)
"""Characters that cannot be seen, as the inside of a character class."""

_HEX = "[0-9A-Fa-f]"
_NEXT = f"%[89ABab]{_HEX}"
_TOKEN = re.compile(
    "|".join(
        (
            rf"%(?:[0-7]{_HEX}|[C-Dc-d]{_HEX}{_NEXT}|[Ee]{_HEX}(?:{_NEXT}){{2}}|[Ff][0-4](?:{_NEXT}){{3}}|[89A-Fa-f]{_HEX})",
            rf"&(?:#[0-9]{{1,7}}|#[xX]{_HEX}{{1,6}}|[A-Za-z][A-Za-z0-9]{{1,31}});",
            rf"\\(?:u[dD][89ABab]{_HEX}{{2}}\\u[dD][C-Fc-f]{_HEX}{{2}}|u{_HEX}{{4}}|u\{{{_HEX}{{1,6}}\}}|x{_HEX}{{2}}"
            r"|[0-3][0-7]{2}|[^A-Za-z0-9\s]|[bfnrte])",
        )
    )
)
"""One escaped character."""

_HIDDEN = re.compile(rf"[{INVISIBLE}](?:(?<=\x1b)\[[0-?]*[ -/]*[@-~])?")
"""A character that cannot be seen, with the rest of the sequence that it may begin."""

_WRAP = re.compile(r"(?:(?<![ \t])[ \t]+)?[\\=]?\r?\n[ \t]*")
"""The end of a line and the indent of the next; spaces are only tried from their first, which is linear."""

_FOLD = re.compile(r"(?<![ \t])[ \t]*[|│\"'\\]{0,3}[ \t]*\n[ \t]*(?:\d{1,6}[:|\t])?(?:[^\w\s]{1,4}[ \t]*)?")
"""The end of a line and what the next one begins with: borders of tables, comments, signs of a diff."""

_LETTERS = {"e": "\x1b", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class View:
    """A text with some of its characters replaced, which knows where each one came from."""

    def __init__(self, source: str, tokens: Iterable[tuple[int, int, str]]) -> None:
        """`tokens` are the start, the end and the replacement of what was replaced, in order."""
        pieces, place, length = [], 0, 0
        self._at: list[int] = []
        self._found: list[tuple[int, int, int]] = []
        for start, end, new in tokens:
            pieces += [source[place:start], new]
            length += start - place
            self._at.append(length)
            self._found.append((start, end, len(new)))
            place, length = end, length + len(new)
        self.text = "".join([*pieces, source[place:]])

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return where the characters from `start` to `end` are in the source."""
        return self._place(start)[0], self._place(end - 1)[1]

    def _place(self, index: int) -> tuple[int, int]:
        token = bisect_right(self._at, index) - 1
        if token < 0:
            return index, index + 1
        start, end, size = self._found[token]
        beyond = index - self._at[token] - size
        return (start, end) if beyond < 0 else (end + beyond, end + beyond + 1)


def has_hidden(text: str) -> bool:
    """Return whether there are characters in a text that cannot be seen."""
    return (not text.isascii() or "\r" in text) and _HIDDEN.search(text) is not None


def decode(text: str) -> Iterator[str]:
    """Yield the text without what cannot be seen, then with its escapes undone, again and again."""
    text = _HIDDEN.sub("", text) if has_hidden(text) else text
    yield text
    for _ in range(_ROUNDS):
        if not any(sign in text for sign in "\\%&") or not _TOKEN.search(text):
            return
        text = _HIDDEN.sub("", _TOKEN.sub(_undo, text))  # escapes may stand for any control character
        yield text


def view_decoded(text: str, rounds: int) -> list[View]:
    """Return the views that lead to what `decode` yields after some rounds."""
    views = [_view(text, _HIDDEN)]
    for _ in range(rounds):
        views.append(_view(views[-1].text, _TOKEN, _undo))
        views.append(_view(views[-1].text, _HIDDEN))
    return views


def view_unwrapped(text: str) -> View:
    """Return the text as one line."""
    return _view(text, _WRAP)


def view_folded(text: str) -> View:
    """Return the text as one line, without what tables, comments and diffs add to the ends of lines."""
    return _view(text, _FOLD)


def view_joined(text: str) -> View:
    """Return the same with a space for each line end."""
    return _view(text, _FOLD, lambda _found: " ")


def _view(
    text: str, pattern: re.Pattern[str], new: Callable[[re.Match[str]], str] = lambda _found: ""
) -> View:
    return View(text, ((found.start(), found.end(), new(found)) for found in pattern.finditer(text)))


def _undo(found: re.Match[str]) -> str:
    """Return the character that was escaped; what turns out to be no escape stays as it is."""
    token = found[0]
    kind, rest = token[0], token[1:]
    if kind == "%":
        return bytes.fromhex(token.replace("%", "")).decode("utf-8", "replace")
    if kind == "&":
        import html  # two thousand names, which most texts do not need

        return html.unescape(token)
    if rest[0] in "ux":
        return _unescape(token)
    if rest[0] in "0123":
        return chr(int(rest, 8))
    return _LETTERS.get(rest, rest)


def _unescape(token: str) -> str:
    units = [int(unit.strip("{}"), 16) for unit in re.split(r"\\[ux]", token)[1:]]
    if len(units) == 2:
        return chr(0x10000 + ((units[0] - 0xD800) << 10) + units[1] - 0xDC00)
    return chr(units[0]) if units[0] <= 0x10FFFF else token


def lower(text: str) -> str:
    """Return the text with its ASCII letters in lower case, each in its place."""
    if text.isascii():
        return text.lower()
    return text.encode("utf-8", "surrogatepass").lower().decode("utf-8", "surrogatepass")


def spell(secret: str) -> set[str]:
    """Return every text by which the secret is found once the escapes around it are undone."""
    raw = _encoded(secret)
    # A secret that looks escaped itself is undone with what surrounds it.
    forms = {form for plain in (secret, secret.replace(" ", "+")) for form in (plain, *decode(plain))}
    forms.add(raw.decode("utf-8", "replace"))
    if len(secret) >= _LONG and secret.isascii() and secret.isprintable():
        return forms  # `unpack` shows it
    forms.add(raw.hex())
    for before in range(3):
        # The characters that belong to the secret alone, wherever it begins in what was encoded.
        whole = base64.b64encode(bytes(before) + raw).decode()
        core = whole[-(-8 * before // 6) : 8 * (before + len(raw)) // 6]
        forms |= {core, core.replace("+", "-").replace("/", "_")}
    return forms


def _encoded(text: str) -> bytes:
    """Return the text as a process prints it, with the undecodable bytes of the environment restored."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


_SIGN = "[A-Za-z0-9+/_-]"
_NEXT_LINE = re.compile(
    r"[ \t|│\"',\\]{0,6}\n[ \t]*(?:(?:[|│#>*;\"']|//|[+-][ \t])[ \t]*|\d{1,6}[:|\t][ \t]*)?"
    rf"({_SIGN}++)(?=={{0,2}}(?![ \t]*\w))"
)
"""The next line of what goes over several, behind the border of a table, a comment or a number."""

_CODE = "[0-9](?:x[0-9A-Fa-f]{2}|[0-9A-Fa-f]{1,3})"
_CODES = re.compile(rf"[0-9](?<![0-9A-Fa-fx][0-9]){_CODE[5:]}(?:[\s,:]{{1,6}}{_CODE}){{4,}}")
_DIGITS = re.compile(r"(?:0x)?([0-9A-Fa-f]{2,4})")
_WIDE = re.compile(rb"(?:[\t\n\r -~]\x00){8,}")


_SIGNS, _HEX_DIGITS, _FIRST, _SHOWN = (
    bytes(97 if byte in signs else 32 for byte in range(256))
    for signs in (
        f"{ascii_letters}{digits}+/_-".encode(),
        hexdigits.encode(),
        b"0234567",
        b"\t\n\r" + bytes(range(0x20, 0x7F)),
    )
)
"""For each byte an `a` if it is one of them: to look for those is far quicker than a pattern."""


Locate = Callable[[int, int], Span]
"""Returns where the characters from one to another are in the source."""


class Unpacked(NamedTuple):
    """A text that was encoded, and the way to where its characters came from."""

    text: str
    locate: Locate


def unpack(text: str) -> Iterator[Unpacked]:
    """Yield every readable text that is encoded in this one."""
    data = text.encode("latin-1", "replace")
    done = 0
    for begin, end in _find_runs(data, _SIGNS, 16):
        if begin >= done:
            done, gaps = _read_lines(text, begin, end)
            yield from _unpack_run(text[begin:done], begin, gaps)
    if len(data) - len(data.translate(None, b"0123456789")) >= 5:
        for found in _CODES.finditer(text):
            yield from _from_codes(text, found)


def _find_runs(data: bytes, members: bytes, shortest: int) -> Iterator[Span]:
    classes, begin, end = data.translate(members), 0, 0
    while (begin := classes.find(b"a" * shortest, end)) >= 0:
        end = classes.find(b" ", begin)
        end = len(data) if end < 0 else end
        yield begin, end


def _read_lines(text: str, begin: int, end: int) -> tuple[int, list[Span]]:
    """Return where a run ends that goes over several lines, and what is between its parts."""
    gaps = []
    while more := _NEXT_LINE.match(text, end):
        gaps.append((end - begin, more.start(1) - begin))
        end = more.end()
    return end, gaps


def _unpack_run(run: str, begin: int, gaps: list[Span]) -> Iterator[Unpacked]:
    ways = [gaps]
    # In a diff, every line begins with the same sign, which base64 has as well.
    if gaps and len(signs := {run[last] for _, last in gaps}) == 1 and signs <= {"+", "-"}:
        ways.append([(first, last + 1) for first, last in gaps])
    for way in ways:
        view = View(run, [(*gap, "") for gap in way]) if way else None
        joined = view.text if view else run

        def locate(first: int, last: int, view: View | None = view, size: int = len(joined)) -> Span:
            place = first, min(last, size)
            first, last = view.span(*place) if view else place
            return begin + first, begin + last

        data = joined.encode()
        for first, last in _find_runs(data, _HEX_DIGITS, 16):
            for start in (first, first + 1):
                # The first digits of readable characters, which those of hashes soon differ from.
                if b"a" * 12 in data[start:last:2].translate(_FIRST):
                    yield from _from_hex(joined[start : last - (last - start) % 2], start, locate)
        if not joined.islower() and not joined.isupper():
            yield from _from_base64(data, locate)


def _from_hex(run: str, begin: int, locate: Locate) -> Iterator[Unpacked]:
    for text, place, step in _readable(bytes.fromhex(run)):

        def find(a: int, b: int, place: int = place, step: int = step) -> Span:
            return locate(begin + 2 * (place + step * a), begin + 2 * (place + step * b))

        yield Unpacked(text, find)


def _from_base64(run: bytes, locate: Locate) -> Iterator[Unpacked]:
    run = run.replace(b"-", b"+").replace(b"_", b"/")
    for offset in range(4):
        size = len(run) - offset
        size -= size % 4 == 1
        data = binascii.a2b_base64(run[offset : offset + size] + b"=" * (-size % 4))
        for text, place, step in _readable(data):

            def find(a: int, b: int, offset: int = offset, place: int = place, step: int = step) -> Span:
                return locate(offset + (place + step * a) * 4 // 3, offset - (place + step * b) * 4 // -3)

            yield Unpacked(text, find)


def _from_codes(text: str, found: re.Match[str]) -> Iterator[Unpacked]:
    codes = list(_DIGITS.finditer(text, *found.span()))
    spans, numbers = [code.span() for code in codes], [code[1] for code in codes]
    if any(len(code) == 4 for code in numbers):  # two bytes each
        spans = [(place, place + 2) for first, last in spans for place in range(first, last - 1, 2)]
        numbers = [text[first:last] for first, last in spans]
    for base in (16, 8, 10):
        try:
            data = bytes(int(one, base) for one in numbers)
        except ValueError:
            continue
        for shown, place, step in _readable(data, 8):

            def find(a: int, b: int, place: int = place, step: int = step) -> Span:
                return spans[place + step * a][0], spans[place + step * b - 1][1]

            yield Unpacked(shown, find)


def _readable(data: bytes, shortest: int = 12) -> Iterator[tuple[str, int, int]]:
    """Yield the parts that a person could read, where they begin, and how many bytes a character has."""
    for begin, end in _find_runs(data, _SHOWN, shortest):
        yield data[begin:end].decode("ascii"), begin, 1
    for found in _WIDE.finditer(data) if 3 * data.count(0) > len(data) else ():
        yield found[0][::2].decode("ascii"), found.start(), 2
