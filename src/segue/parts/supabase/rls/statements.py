"""Splits a migration into its statements, as Postgres would read them, with the line each begins on."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

_TOKEN = re.compile(
    r"""
      (?P<line>--[^\n]*)
    | (?P<block>/\*)
    | (?P<escaped>(?<![A-Za-z0-9_$])[eE]'[^'\\]*(?:(?:\\.|'')[^'\\]*)*(?:'|\Z))
    | (?P<string>'[^']*(?:''[^']*)*(?:'|\Z))
    | (?P<name>"[^"]*(?:""[^"]*)*(?:"|\Z))
    | (?P<dollar>(?<![A-Za-z0-9_$])\$(?:[A-Za-z_\x80-\uffff][A-Za-z0-9_\x80-\uffff]*)?\$)
    | (?P<word>[A-Za-z_][A-Za-z0-9_$]*)
    | (?P<end>;)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r"/\*|\*/")
_BLANK = re.compile(r"(?:\s+|--[^\n]*(?:\n|\Z))+")


class Statement(Struct, frozen=True):
    """One statement without its semicolon."""

    text: str
    line: int


def split(sql: str) -> Iterator[Statement]:
    """The statements of a file, in order."""
    start, counted, line = 0, 0, 1
    for end in _ends(sql):
        begin = min(_after_comments(sql, start), end)
        line += sql.count("\n", counted, begin)
        counted, start = begin, end + 1
        text = sql[begin:end].strip()
        if text:
            yield Statement(text, line)


def _after_comments(sql: str, place: int) -> int:
    """The place where the statement itself begins."""
    while True:
        blank = _BLANK.match(sql, place)
        after = blank.end() if blank else place
        if sql.startswith("/*", after):
            after = _comment_end(sql, after)
        if after == place:
            return place
        place = after


def _ends(sql: str) -> Iterator[int]:
    """Yield the places of the semicolons that end a statement, and the end of the text."""
    place, depth, last = 0, 0, ""
    while found := _TOKEN.search(sql, place):
        kind, place = found.lastgroup, found.end()
        if kind == "block":
            place = _comment_end(sql, found.start())
        elif kind == "dollar":
            close = sql.find(found.group(), place)
            place = len(sql) if close < 0 else close + len(found.group())
        elif kind == "word":
            word = found.group().lower()
            depth = _depth(depth, last, word)
            last = word
        elif kind == "end" and not depth:
            yield found.start()
    yield len(sql)


def _depth(depth: int, last: str, word: str) -> int:
    """Count how deep we are in a function's body in standard SQL: BEGIN ATOMIC … END, CASE … END inside."""
    if word == "atomic" and last == "begin":
        return 1
    if depth and word == "case" and last != "end":
        return depth + 1
    return depth - 1 if depth and word == "end" else depth


def _comment_end(sql: str, start: int) -> int:
    """Comments of Postgres nest."""
    depth = 0
    for mark in _COMMENT.finditer(sql, start):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(sql)
