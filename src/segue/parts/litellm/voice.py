"""Passes on what an agent says while it says it, in whole words, without secrets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from segue.system.redact import Redactor

Hear = Callable[[str], None]
"""Takes the next piece of an answer."""

HOLD = 1.0
"""Seconds for which the first words are held: agents say why they fail, and another may take over."""

_LETTERS = "".join(map(chr, range(ord("!"), ord("~") + 1)))
"""What secrets consist of: a word of these may be unfinished."""

_HELD_CHARS = 16 * 1024
"""How long the last word may become before it is passed on as it is."""


class Voice:
    """One answer as it is spoken: a word is passed on when it has ended, white space when more follows."""

    def __init__(self, hear: Hear, redactor: Redactor, hold: float = HOLD) -> None:
        self._hear = hear
        self._redactor = redactor
        self._hold = hold
        self._timer: asyncio.TimerHandle | None = None
        self._is_held = True
        self._rest = ""
        self._said: list[str] = []

    def add(self, piece: str) -> None:
        """Take the next piece of what the agent says."""
        self._rest += piece
        if self._is_held:
            if self._timer is None:
                self._timer = asyncio.get_running_loop().call_later(self._hold, self._release)
            return
        whole = self._redactor.unfinished(self._rest[: len(self._rest.rstrip(_LETTERS).rstrip())])
        is_long = not whole and len(self._rest) > _HELD_CHARS
        self._pass_on(len(self._rest) if is_long else whole)

    def finish(self, answer: str) -> None:
        """Pass on the rest; the answer follows if it is not what was said last."""
        self.drop()
        self._pass_on(len(self._rest.rstrip()))
        if not "".join(self._said).endswith(answer):
            self._rest = f"\n\n{answer}" if self._said else answer
            self._pass_on(len(self._rest))

    def drop(self) -> None:
        """Keep to itself what was not passed on yet: the agent failed."""
        if self._timer is not None:
            self._timer.cancel()

    def _release(self) -> None:
        self._is_held = False
        self.add("")

    def _pass_on(self, end: int) -> None:
        text, self._rest = self._rest[:end], self._rest[end:]
        if text:
            safe = self._redactor.text(text)
            self._said.append(safe)
            self._hear(safe)
