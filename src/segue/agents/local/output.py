"""One output stream of a local program: bytes are cut into lines, decoded, and become events.

A line goes to the agent's own reader first; whatever that does not want is kept as output, up to a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

from segue.agents.local.values import split
from segue.domain.events import AgentOutput, AgentText, Event, event_data
from segue.domain.text import LONGEST_ANSWER
from segue.system.lines import LineFramer
from segue.system.shapes import unfinished

ReadLine = Callable[[str], list[Event] | None]
"""Returns the events in a line of stdout, or None if the line is plain text."""

_TAIL_BYTES = 64 * 1024
_LINE_BYTES = 4 * LONGEST_ANSWER
"""An answer is one line for some agents, in which characters may be escaped."""
_EVENT_CHARS = 32 * 1024


class OutputStream:
    """Turns one stream into events; keeps what fits, and counts what does not."""

    def __init__(self, name: Literal["out", "err"], kept_bytes: int, read: ReadLine | None = None) -> None:
        self._name = name
        # A line that is too long to be read is no answer: enough of it is kept to show that.
        self._lines = LineFramer(_LINE_BYTES if read else kept_bytes, LONGEST_ANSWER + 1)
        self._kept = self._room = kept_bytes
        self._words = LONGEST_ANSWER
        self._seen = 0
        self._dropped = 0
        self._tail = b""
        self._held = ""
        self._read = read

    @property
    def tail(self) -> str:
        """The end of the stream; it begins with a whole line if possible."""
        tail = self._tail
        if self._seen > len(tail):
            tail = tail.partition(b"\n")[2] or tail
        return tail.decode("utf-8", "replace")

    def feed(self, data: bytes) -> Iterator[Event]:
        """Return the events in a piece of output."""
        self._seen += len(data)
        self._tail = (self._tail + data[-_TAIL_BYTES:])[-_TAIL_BYTES:]
        yield from self._events([line.text for line in self._lines.feed(data)])

    def close(self) -> Iterator[Event]:
        """Return the events in the rest, and how much had to be dropped."""
        yield from self._events([line.text for line in self._lines.close()])
        yield from self._output(self._held)
        if self._dropped:
            cut = max(1, min(self._dropped, self._seen - self._kept))
            yield AgentOutput(self._name, cut_bytes=cut)

    def _events(self, lines: Iterable[str]) -> Iterator[Event]:
        """Yield parsed lines as their own events and plain ones in batches, in the order of printing."""
        batch, self._held = self._held, ""
        for line in lines:
            # The reader sees every line, even those that are not kept: the result is one of the last.
            events = self._read(line) if self._read else None
            if events is None:
                batch += self._take(line)
            elif events and self._fits(line, events):
                yield from self._output(batch)
                yield from events
                batch = ""
            if len(batch) >= _EVENT_CHARS:
                whole = unfinished(batch) or len(batch)
                yield from self._output(batch[:whole])
                batch = batch[whole:]
        # A key whose lines are in two events would be found in neither.
        whole = unfinished(batch)
        yield from self._output(batch[:whole])
        self._held = batch[whole:]

    def _take(self, line: str) -> str:
        """Return as much of the line as still fits; nothing is kept after a line that was cut."""
        if self._room <= 0:
            self._dropped += len(line) + 1
            return ""
        data = f"{line[: self._room]}\n".encode("utf-8", "replace")
        beyond = max(0, len(line) - self._room)
        fits, self._room = data[: self._room], self._room - len(data) - beyond
        self._dropped += len(data) - len(fits) + beyond
        return fits.decode("utf-8", "ignore")

    def _fits(self, line: str, events: list[Event]) -> bool:
        """Return whether the events of a line still fit; what the agent says always does, up to an answer."""
        said = sum(len(event.text) for event in events if isinstance(event, AgentText))
        if said and self._words > 0:
            self._words -= said
            return True
        fits = self._room > 0
        if fits:
            self._room -= min(len(line) + 1, sum(len(str(event_data(event))) for event in events))
        else:
            self._dropped += len(line) + 1
        return fits

    def _output(self, text: str) -> Iterator[Event]:
        for piece in split(text, _EVENT_CHARS):
            yield AgentOutput(self._name, piece)
