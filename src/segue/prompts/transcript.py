"""A conversation as one plain text, because a command-line agent accepts nothing else.

    <<<ROLE:USER>>>
    Hi! What's your name?

    <<<ROLE:ASSISTANT>>>
    I'm Composer.

No two conversations give the same text: a marker inside a message is escaped with a backslash, and one
that is escaped already gets another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum

from msgspec import Struct

from segue.domain.job import Prompt


class Speaker(StrEnum):
    """Who speaks."""

    SYSTEM = "SYSTEM"
    USER = "USER"
    ASSISTANT = "ASSISTANT"


class ChatMessage(Struct, frozen=True):
    """One message of a conversation."""

    role: Speaker
    text: str


_MARKER = re.compile(r"\\*<<<ROLE:(?:SYSTEM|USER|ASSISTANT)>>>")


def write_transcript(messages: Iterable[ChatMessage]) -> Prompt:
    """Write all messages in order, with a blank line between them."""
    return Prompt("\n\n".join(f"<<<ROLE:{said.role}>>>\n{_escape(said.text)}" for said in messages))


def _escape(text: str) -> str:
    return _MARKER.sub(lambda found: "\\" + found[0], text)
