"""Where text enters the store: everything that is written passes here once, and is redacted and cleaned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from segue.domain.events import Event, event_data
from segue.domain.run import RunSpec
from segue.store.encoding import encode

if TYPE_CHECKING:
    from segue.system.redact import Redactor

T = TypeVar("T")


class Boundary:
    """Lets values into the store; what has nothing to hide passes as it is, after one look at its JSON."""

    def __init__(self, redactor: Redactor | None = None) -> None:
        self._redactor = redactor

    def event(self, event: Event) -> tuple[Event, str]:
        """Return an event as it may be seen, and its JSON."""
        text = encode(event_data(event))
        if self._redactor is None or not self._redactor.doubts(text):
            return event, text
        event = self._redactor.struct(event)
        return event, encode(event_data(event))

    def json(self, data: Mapping[str, Any]) -> str:
        """Return JSON values as they may be stored, as text."""
        text = encode(data)
        if self._redactor is None or not self._redactor.doubts(text):
            return text
        return encode(self._redactor.data(data))

    def data(self, data: T) -> T:
        """Return JSON values as they may be stored."""
        if self._redactor is None or not self._redactor.doubts(encode(data)):
            return data
        clean: T = self._redactor.data(data)
        return clean

    def struct(self, value: T) -> T:
        """Return a typed value as it may be stored."""
        return value if self._redactor is None else self._redactor.struct(value)

    def text(self, text: str) -> str:
        """Return a text as it may be stored."""
        return text if self._redactor is None else self._redactor.text(text)

    def spec(self, spec: RunSpec) -> RunSpec:
        """Return what was asked for; places and settings stay, or the run could not be resumed."""
        titles = self.data(spec.titles)
        return spec if titles is spec.titles else replace(spec, titles=titles)
