"""Tells an agent that cannot remember what was said: the latest turns whole, earlier ones in a line each."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

LIMIT = 64 * 1024
"""Characters of a conversation that the agent is shown."""

_SENTENCE = 300
_REQUEST = 2000


class PastTurn(Struct, frozen=True):
    """One turn: what the user and the bridge said, and what the agent replied."""

    messages: str = ""
    results: str = ""
    reply: str = ""


def write_history(turns: Sequence[PastTurn], limit: int = LIMIT) -> str:
    """Return the conversation; what does not fit is shortened, in whole words, and said to be."""
    whole = [_write_whole(turn) for turn in turns]
    if sum(len(text) + 2 for text in whole) <= limit:
        return "\n\n".join(whole)
    latest: list[str] = []
    room = limit // 2
    for text in reversed(whole):
        if len(text) + 2 > room:
            break
        latest.insert(0, text)
        room -= len(text) + 2
    if not latest:
        latest = [clip_middle(whole[-1], room)]
    earlier = _summarise(turns[: len(turns) - len(latest)], limit // 2)
    return "\n\n".join([*earlier, *latest])


def clip_words(text: str, size: int) -> str:
    """Return the beginning of a text on one line, cut between two words and marked."""
    line = " ".join(text.split())
    if len(line) <= size:
        return line
    return f"{line[:size].rpartition(' ')[0] or line[:size]} …"


def clip_middle(text: str, size: int) -> str:
    """Return the beginning and the end of a text, cut between two words and marked."""
    if len(text) <= size:
        return text
    first, last = text[: size // 2], text[-size // 2 :]
    first = first[: cut.start()] if (cut := re.search(r"\s\S*\Z", first)) else first
    last = last[cut.end() :] if (cut := re.match(r"\S*\s+", last)) else last
    return f"{first}\n[… {len(text) - len(first) - len(last)} characters are left out …]\n{last}"


def _write_whole(turn: PastTurn) -> str:
    parts = {"The user": turn.messages, "The bridge": turn.results, "You": turn.reply}
    return "\n\n".join(f"{who}:\n{text}" for who, text in parts.items() if text)


def _summarise(turns: Sequence[PastTurn], limit: int) -> list[str]:
    """Return a line for each of the earlier turns; of very many, the latest ones."""
    lines = [_summarise_turn(number, turn) for number, turn in enumerate(turns, 1)]
    kept: list[str] = []
    for line in reversed(lines):
        limit -= len(line) + 2
        if limit < 0:
            kept.insert(0, f"Turns 1 to {len(lines) - len(kept)} are left out.")
            break
        kept.insert(0, line)
    return ["Earlier turns, shortened:", *kept] if kept else []


def _summarise_turn(number: int, turn: PastTurn) -> str:
    results = " ".join(line for line in turn.results.splitlines() if not line.startswith("|"))
    parts = {
        "the user": clip_words(turn.messages, _REQUEST),
        "the bridge": clip_words(results, _SENTENCE),
        "you": clip_words(turn.reply, _SENTENCE),
    }
    return f"Turn {number}. " + " ".join(f"{who}: {text}" for who, text in parts.items() if text)
