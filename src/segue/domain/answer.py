"""An answer of an agent: whole up to a limit, beyond which it is a failure. Standard library only."""

from __future__ import annotations

LONGEST_ANSWER = 16 * 1024**2
"""Characters of an agent's final answer that are read; a longer one is refused, never cut."""


class AnswerText:
    """A text that comes in pieces; it grows just beyond the limit, which shows that it was longer."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __str__(self) -> str:
        self._pieces = ["".join(self._pieces)]
        return self._pieces[0]

    def add(self, piece: str) -> None:
        """Add a piece."""
        kept = piece[: LONGEST_ANSWER + 1 - self._size]
        self._pieces.append(kept)
        self._size += len(kept)

    def take(self) -> str:
        """Return the text, and start over."""
        text = str(self)
        self._pieces, self._size = [], 0
        return text


def is_too_long(text: str) -> bool:
    """Return whether an answer is longer than what is read."""
    return len(text) > LONGEST_ANSWER


def keep_start(text: str, most: int) -> str:
    """Return the start of a text that is too long for its place, and say how much was left out."""
    rest = len(text) - most
    return text if rest <= 0 else f"{text[:most]}\n[{rest:,} characters were left out here]"


def keep_end(text: str, most: int) -> str:
    """Return the end of a text that is too long for its place, from a whole line on, and say what is gone."""
    if len(text) <= most:
        return text
    end = text[-most:]
    whole = end.partition("\n")[2] or end
    return f"[{len(text) - len(whole):,} characters were left out here]\n{whole}"
