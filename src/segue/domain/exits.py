"""An honest way out: how an agent says that a task cannot be done, or asks, and what it shows for it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import msgspec
from msgspec import Struct

OFFER = """\
- A task that is hard can be done. One that contradicts itself or its tests, or needs what only a person \
has, cannot: do not work around it. Then end your last message with one line such as {"cannot": "why", \
"evidence": [{"file": "tests/test_a.py", "line": 12, "quote": "the words there"}]}; evidence without a file \
quotes the task. If one answer would do, end with {"question": "…"}."""
"""What every prompt that asks for work says."""
CANNOT = "The agent says that this cannot be done: "
"""How the reason of a task begins whose agent has shown why."""

_START = re.compile(r'\{\s*"(?:cannot|question)"')
_WORD = re.compile(r"\w")
_TAIL = 8000
_SHOWN = 5


class Citation(Struct, frozen=True):
    """A place that shows something: in a file, or in the task if no file is named."""

    file: str = ""
    line: int = 0
    quote: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file or "the task"
        return f"{place} “{self.quote}”" if self.quote else place


class HonestExit(Struct, frozen=True):
    """How an agent ends that could not do its task."""

    cannot: str = ""
    question: str = ""
    evidence: tuple[Citation, ...] = ()

    def describe(self) -> str:
        """Return what it says and shows, for people."""
        shown = "; ".join(map(str, self.evidence[:_SHOWN]))
        return f"{CANNOT}{self.cannot.strip()} It shows: {shown}"


def find_exit(message: str) -> HonestExit | None:
    """Return the way out that a message ends with; None if it ends otherwise."""
    starts = [found.start() for found in _START.finditer(message[-_TAIL:])]
    if not starts:
        return None
    text = message[-_TAIL:][starts[-1] :]
    try:
        value, end = json.JSONDecoder().raw_decode(text)
        way = msgspec.convert(value, HonestExit, strict=False)
    except (ValueError, RecursionError, msgspec.ValidationError):
        return None
    is_last = not _WORD.search(text[end:])
    return way if is_last and (way.cannot.strip() or way.question.strip()) else None


def find_unshown(way: HonestExit, task: str, read: Callable[[str], str | None]) -> list[str]:
    """Return what is wrong with the evidence: there is none, or it is not where it is said to be."""
    return list(_problems(way, task, read)) if way.evidence else ["there is no evidence"]


def _problems(way: HonestExit, task: str, read: Callable[[str], str | None]) -> Iterator[str]:
    for one in way.evidence:
        text = read(one.file) if one.file else task
        if text is None:
            yield f"there is no file {one.file}"
        elif one.quote.strip() and _plain(one.quote) not in _plain(text):
            yield f"{one.file or 'the task'} does not say “{one.quote}”"
        elif not one.quote.strip() and not 0 < one.line <= text.count("\n") + 1:
            yield f"{one} shows nothing: quote the words"


def _plain(text: str) -> str:
    return " ".join(text.split())
