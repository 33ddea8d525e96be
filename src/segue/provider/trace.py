"""The trace of a call: one span for the call and for everything it asked on the way, as a tree."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["cli", "litellm", "profile"]


@dataclass(slots=True)
class Span:
    """One node of a call: a model that was asked, or the profile that asked it."""

    id: str
    parent: str | None
    trace: str
    depth: int
    kind: Kind
    model: str
    """The name it was asked under."""
    part: str = ""
    """What it does for its parent: `candidate`, `judge`, `draft`, …"""
    started: float = field(default_factory=time.time)
    seconds: float = 0.0
    queued: float = 0.0
    """Seconds it waited for a free process."""
    ok: bool = True
    error: str = ""
    failure: str | None = None
    """The kind of failure, in Segue's words."""
    exit_code: int | None = None
    stderr: str = ""
    """The last words on stderr."""
    answered_by: str | None = None
    """The model as the agent or the vendor names it."""
    input_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False
    """Whether the tokens were counted by length, because nobody reported them."""
    cost_usd: float | None = None
    note: str = ""

    def data(self) -> dict[str, Any]:
        """The span as plain data, for the store and for callbacks."""
        return {name: getattr(self, name) for name in self.__slots__}


class Trace:
    """The spans of one call, parents before children."""

    def __init__(self) -> None:
        self.id = secrets.token_hex(16)
        self.spans: list[Span] = []

    @contextmanager
    def span(self, kind: Kind, model: str, parent: Span | None = None, part: str = "") -> Iterator[Span]:
        """A span around what happens inside; a failure is written down and goes on."""
        span = Span(
            id=secrets.token_hex(8),
            parent=parent.id if parent else None,
            trace=self.id,
            depth=parent.depth + 1 if parent else 0,
            kind=kind,
            model=model,
            part=part,
        )
        place = len(self.spans) if parent is None else self._after(parent)
        self.spans.insert(place, span)
        began = time.monotonic()
        try:
            yield span
        except BaseException as error:
            span.ok, span.error = False, span.error or _words(error)
            raise
        finally:
            span.seconds = round(time.monotonic() - began, 6)

    def children(self, span: Span) -> list[Span]:
        """What a span has asked, directly."""
        return [other for other in self.spans if other.parent == span.id]

    def data(self) -> list[dict[str, Any]]:
        """All spans as plain data."""
        return [span.data() for span in self.spans]

    def _after(self, parent: Span) -> int:
        """Behind the parent and all that belongs to it so far."""
        place = self.spans.index(parent) + 1
        while place < len(self.spans) and self.spans[place].depth > parent.depth:
            place += 1
        return place


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500] if str(error) else type(error).__name__
