"""The trace of a call: a tree with one span for the call and one for every model it asked."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

from msgspec import structs

from segue.domain.events import TraceSpan

SpanKind = Literal["cli", "litellm", "profile"]


class Span:
    """A model that is asked, or the profile that asks it; `event` has what is known so far."""

    def __init__(self, event: TraceSpan) -> None:
        self.event = event

    def learn(self, **facts: Any) -> None:
        """Set fields of the event."""
        self.event = structs.replace(self.event, **facts)


class Trace:
    """The spans of one call, parents before children."""

    def __init__(self) -> None:
        self.id = secrets.token_hex(16)
        self._spans: list[Span] = []

    @property
    def spans(self) -> list[TraceSpan]:
        """The spans, as far as they are known."""
        return [span.event for span in self._spans]

    @contextmanager
    def span(self, kind: SpanKind, model: str, parent: Span | None = None, part: str = "") -> Iterator[Span]:
        """Open a span around a block; a failure is noted in it and raised again."""
        above, depth = (parent.event.id, parent.event.depth + 1) if parent else (None, 0)
        span = Span(
            TraceSpan(self.id, secrets.token_hex(8), model, above, depth, kind, part, started=time.time())
        )
        self._spans.insert(self._index_after(parent) if parent else len(self._spans), span)
        began = time.monotonic()
        try:
            yield span
        except BaseException as error:
            span.learn(ok=False, error=_describe(error))
            raise
        finally:
            span.learn(seconds=round(time.monotonic() - began, 6))

    def data(self) -> list[dict[str, Any]]:
        """Return all fields of all spans as plain data, for callbacks."""
        return [structs.asdict(span) for span in self.spans]

    def _index_after(self, parent: Span) -> int:
        """Return the index after the parent and all its descendants so far."""
        place = self._spans.index(parent) + 1
        while place < len(self._spans) and self._spans[place].event.depth > parent.event.depth:
            place += 1
        return place


def _describe(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:500] if str(error) else type(error).__name__
