"""The ids of tasks as real files write them: T001, **T011 [P]**, [T001], T047a, T054-T058, TASK-001."""

from __future__ import annotations

import re

from msgspec import Struct
from msgspec.structs import replace

_SUFFIX = (
    r"(?:[A-Za-z][0-9]{0,2}(?![A-Za-z0-9]))?(?:\.[0-9]{1,3}[A-Za-z]?(?![A-Za-z0-9]))*"
    r"(?:-(?:[0-9]{1,3}|[A-Z])(?![\w-]))?"
)
_ATOM = (
    r"(?:TASK-[0-9]{1,6}|T-[A-Z]{1,8}-[0-9]{1,6}|T-[0-9]{2,6}|T[0-9]{1,6}|[A-Z][0-9]{3,6})"
    rf"{_SUFFIX}(?![A-Za-z0-9%]|_[A-Za-z0-9])"
)
_ID = rf"{_ATOM}(?:(?:[/&+–—-]|\.\.|, ?){_ATOM})*"
# A label contains a word, everything else before an id contains none: no text can be read in two ways.
_LABEL = r"\[(?=[^\[\]]{1,40}\])[^\w\[\]]*\w[^\[\]]*\]"
_BEFORE = rf"(?:{_LABEL}|[^\w]|_)*?"
_NAMED = re.compile(rf"({_BEFORE})({_ID})", re.DOTALL)
_ID_HINT = re.compile("[A-Z]-?[0-9]")
"""Something that every id has: quick to look for."""
_NEXT_LABEL = re.compile(r"[\s*_:：~`\]]*\[([^\[\]]{1,40})\](?!\()")
_LABELS = re.compile(r"\[([^\[\]]*\w[^\[\]]*)\]")
_LEAD = re.compile(r"(?:[\s*:：~`\])–—]|__(?=\s)|[-.,;](?=\s))*")
_TASK_WORD = r"(?i:task)"
_STEP_WORD = r"(?i:step)"
# `2.1` and `4b` are tasks of their own; `2-3` and `2/3` could mean anything and are left to a person.
_NUMBERED = re.compile(
    rf"[^\w\[]*(?:({_TASK_WORD})|({_STEP_WORD}))\s*(?:[#№-]\s*)?"
    r"([0-9]+(?:\.[0-9]+)*[a-zA-Z]?)(?!\w|[-–/.][0-9])[:：.)\s—–*_-]*(.*)",
    re.DOTALL,
)
_WORD_AND_ID = re.compile(rf"\W*{_TASK_WORD}[\s:#-]+(?=[*_`\[(]*T-?[0-9])")
_LONGEST_NUMBER = 18


class Named(Struct, frozen=True):
    """A text that begins with an id: the id, the labels around it and the rest."""

    id: str
    labels: tuple[str, ...]
    title: str
    before: str
    end: int
    """Where the id ends in the text."""


def named(text: str) -> Named | None:
    """Read the id a text begins with; marks, emoji and labels may stand before it."""
    found = _NAMED.match(text) if _ID_HINT.search(text) else None
    if not found:
        return None
    labels = [label.strip() for label in _LABELS.findall(found[1])]
    place = found.end()
    while after := _NEXT_LABEL.match(text, place):
        labels.append(after[1].strip())
        place = after.end()
    rest = text[place:]
    return Named(_key(found[2]), tuple(labels), _LEAD.sub("", rest, count=1), found[1], found.end(2))


class Numbered(Struct, frozen=True):
    """A heading such as `Task 2: title` or `Step 3`."""

    word: str
    """`Task` or `Step`."""
    key: str
    title: str
    end: int
    """Where the number ends in the text."""


def numbered(text: str) -> Numbered | None:
    """Read the number and the title of a heading such as `Task 2: title`."""
    found = _NUMBERED.match(text)
    key = _number(found[3]) if found else None
    if found is None or key is None:
        return None
    return Numbered("Task" if found[1] else "Step", key, found[4].rstrip().rstrip("#").strip(), found.end(3))


def named_in_heading(text: str) -> Named | None:
    """Read the id of a task that has a heading of its own: `T002 …`, `Task T002: …`, `Task 2: …`."""
    word = _WORD_AND_ID.match(text)
    found = named(text[word.end() :] if word else text)
    if found is not None:
        shifted = replace(found, end=found.end + (word.end() if word else 0))
        return shifted if found.id.startswith("T") else None
    other = numbered(text)
    if other is None or other.word != "Task":
        return None
    return Named(other.key, tuple(_LABELS.findall(other.title)), other.title, "", other.end)


def _number(text: str) -> str | None:
    """`01` is 1, `2.1` and `4B` are 2.1 and 4b; None for a number too long to be one."""
    parts = [part.lstrip("0") or "0" for part in text.lower().split(".")]
    key = ".".join("0" + part if part.isalpha() else part for part in parts)
    return key if len(key) <= _LONGEST_NUMBER else None


def atoms(id_: str) -> tuple[str, ...]:
    """Return the single ids in a pair or a range."""
    return tuple(re.findall(_ATOM, id_))


def _key(id_: str) -> str:
    """As people can type it; a slash would be read as a level in the names of steps."""
    key = re.sub(r"[–—]|\.\.", "-", id_)
    return re.sub(r"[/&]|, ?", "+", key)
