"""A prompt: the only thing an agent accepts. It is built under `segue.prompts` alone."""

from __future__ import annotations

import hashlib

from msgspec import Struct


class Prompt(Struct, frozen=True):
    """The finished text sent to an agent."""

    text: str

    @property
    def digest(self) -> str:
        """The name under which the text is stored once, and the only part of it that logs show."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
