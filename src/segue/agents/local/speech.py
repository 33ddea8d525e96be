"""Passes on what an agent says while it says it, for those who listen."""

from __future__ import annotations

from collections.abc import Callable

Hear = Callable[[str], None]


class Speech:
    """The messages of one launch, a blank line between them."""

    def __init__(self, hear: Hear | None = None) -> None:
        self._hear = hear
        self._heard = 0
        self._is_first = True

    def add(self, piece: str) -> None:
        """Pass on a piece of a message that has not ended."""
        if self._hear is None or not piece:
            return
        gap = "" if self._heard or self._is_first else "\n\n"
        self._heard += len(piece)
        self._is_first = False
        self._hear(gap + piece)

    def end(self, message: str) -> None:
        """End a message, and pass on what was not heard of it in pieces."""
        self.add(message[self._heard :])
        self._heard = 0
