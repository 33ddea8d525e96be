"""A conversation as one plain text, the only thing a command-line agent is given.

    <<<ROLE:USER>>>
    Hi! What's your name?

    <<<ROLE:ASSISTANT>>>
    I'm Composer.

No two conversations give the same text: a role's marker inside a message gets a backslash, and so does one
that has some already.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from segue.domain.prompt import Prompt


class Role(StrEnum):
    """Who speaks."""

    SYSTEM = "SYSTEM"
    USER = "USER"
    ASSISTANT = "ASSISTANT"


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """What somebody said."""

    role: Role
    text: str


_MARKER = re.compile(r"(\\*)<<<ROLE:(SYSTEM|USER|ASSISTANT)>>>")
_BETWEEN = "\n\n"


def transcript(messages: Iterable[ChatMessage]) -> Prompt:
    """All messages in order, a blank line between them."""
    return Prompt(_BETWEEN.join(f"<<<ROLE:{said.role}>>>\n{_escaped(said.text)}" for said in messages))


def read_transcript(text: str) -> list[ChatMessage]:
    """The messages of a transcript; raises ValueError for a text that is none."""
    markers = [found for found in _MARKER.finditer(text) if not found[1]]
    if not markers or markers[0].start() != 0:
        raise ValueError("a transcript begins with a role")
    ends = [found.start() - len(_BETWEEN) for found in markers[1:]] + [len(text)]
    return [
        ChatMessage(Role(found[2]), _MARKER.sub(_unescaped, text[found.end() + 1 : end]))
        for found, end in zip(markers, ends, strict=True)
    ]


def _escaped(text: str) -> str:
    return _MARKER.sub(lambda found: "\\" + found[0], text)


def _unescaped(found: re.Match[str]) -> str:
    return found[0].removeprefix("\\")
