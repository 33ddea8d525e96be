"""Reads the text of an issue: what people see of it, its checklists, and the issues it waits for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from segue.domain.text import clean

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_BOX = re.compile(r"^\s*(?:[-*+]|\d{1,9}[.)])\s+\[([ xX])\]\s+(\S.*?)\s*$")
_LONGEST = 65_536
_REF = r"(?:[\w.-]+/[\w.-]+)?#[1-9][0-9]{0,9}\b|https?://[^\s/]+/[\w.-]+/[\w.-]+/issues/[1-9][0-9]{0,9}\b"
_REFS = re.compile(_REF)
_WAITS = re.compile(
    rf"(?i:\b(?:blocked\s+by|depends\s+(?:up)?on)\b)[\s:*_]*((?:{_REF})(?:\s*(?:,|&|\band\b)?\s*(?:{_REF}))*)"
)
_PARTS = re.compile(r"(?:https?://[^\s/]+/)?(?:([\w.-]+/[\w.-]+))?(?:#|/issues/)(\d+)")


def read_body(body: object) -> str:
    """Return what people see of a text: hidden comments and characters are left out."""
    if not isinstance(body, str):
        return ""
    return clean(_COMMENT.sub("", body[:_LONGEST].replace("\r\n", "\n"))).strip()


def read_checklist(text: str) -> list[str]:
    """Return the items of all checklists that are no mere references to other issues."""
    found = (item for item in _boxes(text) if not _REFS.fullmatch(_bare(item)))
    return list(dict.fromkeys(found))


def read_waits(text: str, own: str) -> Iterator[tuple[str, int]]:
    """Yield the repository and number of every issue that a text says it waits for.

    These are named by "blocked by" and "depends on", or are the items of a task list.
    """
    for line in _lines(text):
        for stated in _WAITS.finditer(line):
            yield from _read_refs(stated[1], own)
    for item in _boxes(text):
        if _REFS.fullmatch(_bare(item)):
            yield from _read_refs(item, own)


def _bare(item: str) -> str:
    return re.sub(r"[\s*_`~]+", "", item)


def _read_refs(text: str, own: str) -> Iterator[tuple[str, int]]:
    for found in _REFS.finditer(text):
        parts = _PARTS.fullmatch(found[0])
        if parts is not None:
            yield (parts[1] or own), int(parts[2])


def _boxes(text: str) -> Iterator[str]:
    for line in _lines(text):
        if box := _BOX.match(line):
            yield box[2]


def _lines(text: str) -> Iterator[str]:
    """Yield the lines that are outside of code blocks."""
    fence = ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if fence:
            is_end = found and found[1].startswith(fence) and not line.strip().strip(fence[0])
            fence = "" if is_end else fence
        elif found:
            fence = found[1]
        else:
            yield line
