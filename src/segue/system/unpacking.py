"""Finds what is encoded in a text (base64, hex, lists of codes) and shows what it stands for.

What comes out is searched as any other text is, so that a secret is found in it, and in what is encoded
in that.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable, Iterator
from string import ascii_letters, digits, hexdigits
from typing import NamedTuple

from segue.domain.pattern import pattern
from segue.system.spellings import Span, View

_SIGN = "[A-Za-z0-9+/_-]"
_NEXT = pattern(
    r"[ \t|│\"',\\]{0,6}\n[ \t]*(?:(?:[|│#>*;\"']|//|[+-][ \t])[ \t]*|\d{1,6}[:|\t][ \t]*)?"
    rf"({_SIGN}++)(?=={{0,2}}(?![ \t]*\w))"
)
"""The next line of what goes over several, behind the border of a table, a comment or a number."""

_CODE = "[0-9](?:x[0-9A-Fa-f]{2}|[0-9A-Fa-f]{1,3})"
_CODES = pattern(rf"[0-9](?<![0-9A-Fa-fx][0-9]){_CODE[5:]}(?:[\s,:]{{1,6}}{_CODE}){{4,}}")
_DIGITS = pattern(r"(?:0x)?([0-9A-Fa-f]{2,4})")
_WIDE = pattern(rb"(?:[\t\n\r -~]\x00){8,}")


_SIGNS, _HEX, _FIRST, _SHOWN = (
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
    while more := _NEXT.match(text, end):
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
        for first, last in _find_runs(data, _HEX, 16):
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
