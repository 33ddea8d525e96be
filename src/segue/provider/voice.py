"""Passes on what an agent says while it says it, in whole words, without secrets."""

from __future__ import annotations

from collections.abc import Callable

from segue.system.redact import Redactor

Hear = Callable[[str], None]
"""Takes the next piece of an answer."""

_LETTERS = "".join(map(chr, range(ord("!"), ord("~") + 1)))
"""What secrets consist of: a word of these may be unfinished."""

_HELD_CHARS = 16 * 1024
"""How long the last word may become before it is passed on as it is."""


class Voice:
    """One answer as it is spoken: a word is passed on when it has ended, white space when more follows."""

    def __init__(self, hear: Hear, redactor: Redactor) -> None:
        self._hear = hear
        self._redactor = redactor
        self._held = ""
        self._said: list[str] = []

    @property
    def has_spoken(self) -> bool:
        """True if something was passed on."""
        return bool(self._said)

    def add(self, piece: str) -> None:
        """Take the next piece of what the agent says."""
        self._held += piece
        whole = len(self._held.rstrip(_LETTERS).rstrip())
        is_long = not whole and len(self._held) > _HELD_CHARS
        self._pass_on(len(self._held) if is_long else whole)

    def finish(self, answer: str) -> None:
        """Pass on the rest; the answer follows if it is not what was said last."""
        self._pass_on(len(self._held.rstrip()))
        if not "".join(self._said).endswith(answer):
            self._held = f"\n\n{answer}" if self._said else answer
            self._pass_on(len(self._held))

    def _pass_on(self, end: int) -> None:
        text, self._held = self._held[:end], self._held[end:]
        if not self._said:
            text = text.lstrip()
        if text:
            told = self._redactor.text(text)
            self._said.append(told)
            self._hear(told)
