"""The trace of a call: a tree with one span for the call and one for every model it asked."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

SpanKind = Literal["cli", "litellm", "profile"]


@dataclass(slots=True)
class Span:
    """A model that was asked, or the profile that asked it."""

    id: str
    parent: str | None
    trace: str
    depth: int
    kind: SpanKind
    model: str
    """The name the caller used."""
    part: str = ""
    """Its part in the parent: `candidate`, `judge`, `draft`, …"""
    started: float = field(default_factory=time.time)
    seconds: float = 0.0
    queued: float = 0.0
    """Seconds spent waiting for a free process."""
    ok: bool = True
    error: str = ""
    failure: str | None = None
    """The kind of failure, as in `FailureKind`."""
    exit_code: int | None = None
    stderr: str = ""
    """The end of stderr."""
    answered_by: str | None = None
    """The model that answered, as the agent or vendor calls it."""
    input_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False
    """True if the tokens were estimated from the length, because none were reported."""
    cost_usd: float | None = None
    note: str = ""

    def data(self) -> dict[str, Any]:
        """Return the span as plain data, for the store and for callbacks."""
        return {name: getattr(self, name) for name in self.__slots__}


class Trace:
    """The spans of one call, parents before children."""

    def __init__(self) -> None:
        self.id = secrets.token_hex(16)
        self.spans: list[Span] = []

    @contextmanager
    def span(self, kind: SpanKind, model: str, parent: Span | None = None, part: str = "") -> Iterator[Span]:
        """Open a span around a block; a failure is noted in it and raised again."""
        span = Span(
            id=secrets.token_hex(8),
            parent=parent.id if parent else None,
            trace=self.id,
            depth=parent.depth + 1 if parent else 0,
            kind=kind,
            model=model,
            part=part,
        )
        place = len(self.spans) if parent is None else self._index_after(parent)
        self.spans.insert(place, span)
        began = time.monotonic()
        try:
            yield span
        except BaseException as error:
            span.ok, span.error = False, span.error or _describe(error)
            raise
        finally:
            span.seconds = round(time.monotonic() - began, 6)

    def data(self) -> list[dict[str, Any]]:
        """Return all spans as plain data."""
        return [span.data() for span in self.spans]

    def _index_after(self, parent: Span) -> int:
        """Return the index after the parent and all its descendants so far."""
        place = self.spans.index(parent) + 1
        while place < len(self.spans) and self.spans[place].depth > parent.depth:
            place += 1
        return place


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500] if str(error) else type(error).__name__
