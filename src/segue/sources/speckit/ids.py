"""The ids of tasks as real files write them: T001, **T011 [P]**, [T001], T047a, T054-T058, TASK-001."""

from __future__ import annotations

import re

from msgspec import Struct

_SUFFIX = (
    r"(?:[A-Za-z][0-9]{0,2}(?![A-Za-z0-9]))?(?:\.[0-9]{1,3}[A-Za-z]?(?![A-Za-z0-9]))*"
    r"(?:-(?:[0-9]{1,3}|[A-Z])(?![\w-]))?"
)
_ATOM = (
    r"(?:TASK-[0-9]{1,6}|T-[A-Z]{1,8}-[0-9]{1,6}|T-[0-9]{2,6}|T[0-9]{1,6}|[A-Z][0-9]{3,6})"
    rf"{_SUFFIX}(?![A-Za-z0-9]|_[A-Za-z0-9])"
)
_ID = rf"{_ATOM}(?:(?:[/&+–—-]|\.\.|, ?){_ATOM})*"
# A label contains a word, everything else before an id contains none: no text can be read in two ways.
_LABEL = r"\[(?=[^\[\]]{1,40}\])[^\w\[\]]*\w[^\[\]]*\]"
_BEFORE = rf"(?:{_LABEL}|[^\w]|_)*?"
_NAMED = re.compile(rf"({_BEFORE})({_ID})", re.DOTALL)
_NEXT_LABEL = re.compile(r"[\s*_:：~`\]]*\[([^\[\]]{1,40})\](?!\()")
_LABELS = re.compile(r"\[([^\[\]]*\w[^\[\]]*)\]")
_LEAD = re.compile(r"(?:[\s*:：~`\])–—]|__(?=\s)|[-.,;](?=\s))*")
_STRUCK = re.compile(r"\W*~~[^~]+~~\s*(?:[(\[*—–-].*)?", re.DOTALL)


class Named(Struct, frozen=True):
    """A text that begins with an id: the id, the labels around it and the rest."""

    id: str
    labels: tuple[str, ...]
    title: str
    before: str
    struck: bool
    """True if the id, or all that follows, is struck through."""


def named(text: str) -> Named | None:
    """Read the id a text begins with; marks, emoji and labels may stand before it."""
    found = _NAMED.match(text)
    if not found:
        return None
    labels = [label.strip() for label in _LABELS.findall(found[1])]
    place = found.end()
    while after := _NEXT_LABEL.match(text, place):
        labels.append(after[1].strip())
        place = after.end()
    rest = text[place:]
    struck = "~~" in found[1] or is_struck(rest)
    return Named(_key(found[2]), tuple(labels), _LEAD.sub("", rest, count=1), found[1], struck)


def atoms(id_: str) -> tuple[str, ...]:
    """The single ids in a pair or a range."""
    return tuple(re.findall(_ATOM, id_))


def is_struck(text: str) -> bool:
    """Return whether all words are struck through, except for a remark at the end."""
    return _STRUCK.fullmatch(text) is not None


def _key(id_: str) -> str:
    """As people can type it; a slash would be read as a level in the names of steps."""
    key = re.sub(r"[–—]|\.\.", "-", id_)
    return re.sub(r"[/&]|, ?", "+", key)
