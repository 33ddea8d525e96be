"""What all agents that are local processes share: from a command to events, in bounded memory.

Bytes are redacted before anything else looks at them, then cut into lines. A line goes to the agent's
own reader; what that does not want is kept as output, up to a limit per stream.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import asdict, dataclass
from typing import Literal, cast

from segue.domain.event import Event, EventType
from segue.domain.failure import Failure
from segue.domain.job import Job
from segue.domain.outcome import Outcome
from segue.system.lines import LineFramer
from segue.system.process.processes import Chunk, Command, Exit, Processes, child_environment
from segue.system.redact import Redactor

ReadLine = Callable[[str], list[Event] | None]
"""An agent's own reader: the events in a line of stdout, or None when it is plain text."""

TAIL_BYTES = 16 * 1024
_LINE_BYTES = 4 * 1024 * 1024
_EVENT_CHARS = 32 * 1024


@dataclass(frozen=True, slots=True)
class Ended:
    """How the process ended, and its last words."""

    exit: Exit
    out_tail: str
    err_tail: str

    def failure(self, now: float, out_tail: str | None = None) -> Failure | None:
        """Why it failed, as far as exit code and last words tell."""
        from segue.domain.classify import classify  # not before the first launch: its patterns take a while

        end = self.exit
        out = self.out_tail if out_tail is None else out_tail
        return classify(end.code, end.signal, end.reason, end.message, out, self.err_tail, now)


def environment(
    job: Job, passed: Iterable[str] = (), extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The variables an agent's process sees: the allow-listed ones, the given ones, and the job's labels."""
    labels = {f"SEGUE_{name.upper()}": value for name, value in job.labels.items()}
    return child_environment(passed, {**(extra or {}), **labels})


async def run_local(
    processes: Processes,
    redactor: Redactor,
    token: str,
    command: Command,
    read: ReadLine | None = None,
    out_tail_bytes: int = TAIL_BYTES,
) -> AsyncGenerator[Event | Ended, None]:
    """Run the command, or adopt it when the token is known; the last thing yielded is how it ended."""
    kept = command.limits.kept_bytes
    streams = {
        "out": _Stream("out", redactor, kept, out_tail_bytes, read),
        "err": _Stream("err", redactor, kept, TAIL_BYTES, None),
    }
    yield Event(EventType.AGENT_STARTED, {"argv0": command.argv[0]})
    items = cast("AsyncGenerator[Chunk | Exit, None]", processes.run(token, command))
    async with aclosing(items):
        async for item in items:
            if isinstance(item, Chunk):
                for event in streams[item.stream].feed(item.data):
                    yield event
            else:
                for stream in streams.values():
                    for event in stream.close():
                        yield event
                yield Ended(item, streams["out"].tail, streams["err"].tail)


def ended_event(ended: Ended, outcome: Outcome) -> Event:
    """The last event of a launch."""
    data = {
        "ok": outcome.failure is None,
        "exit_code": outcome.exit_code,
        "signal": ended.exit.signal,
        "pid": ended.exit.pid,
        "adopted": ended.exit.adopted,
        "duration": round(outcome.duration, 3),
        "failure": asdict(outcome.failure) if outcome.failure else None,
        "usage": asdict(outcome.usage) if outcome.usage else None,
    }
    return Event(EventType.AGENT_ENDED, data, outcome)


class _Stream:
    """One output stream: redacts, cuts lines, keeps what fits and counts what does not."""

    def __init__(
        self,
        name: Literal["out", "err"],
        redactor: Redactor,
        kept_bytes: int,
        tail_bytes: int,
        read: ReadLine | None,
    ) -> None:
        self._name = name
        self._redacted = redactor.stream()
        self._lines = LineFramer(_LINE_BYTES)
        self._kept = self._room = kept_bytes
        self._seen = 0
        self._left_out = 0
        self._tail = b""
        self._tail_bytes = tail_bytes
        self._read = read

    @property
    def tail(self) -> str:
        """The last words, redacted; they begin with a whole line, if possible."""
        tail = self._tail
        if self._seen > len(tail):
            tail = tail.partition(b"\n")[2] or tail
        return _text(tail.decode("utf-8", "replace"))

    def feed(self, data: bytes) -> Iterator[Event]:
        """The events in a piece of output."""
        clean = self._redacted.feed(data)
        self._remember(clean)
        yield from self._events(line.text for line in self._lines.feed(clean))

    def close(self) -> Iterator[Event]:
        """The events in what was held back, and what had to be left out."""
        rest = self._redacted.close()
        self._remember(rest)
        lines = [*self._lines.feed(rest), *self._lines.close()]
        yield from self._events(line.text for line in lines)
        if self._left_out:
            cut = max(1, min(self._left_out, self._seen - self._kept))
            yield Event(EventType.AGENT_OUTPUT, {"stream": self._name, "cut_bytes": cut})

    def _remember(self, data: bytes) -> None:
        self._seen += len(data)
        self._tail = (self._tail + data[-self._tail_bytes :])[-self._tail_bytes :]

    def _events(self, lines: Iterable[str]) -> Iterator[Event]:
        """Parsed lines as their own events, plain ones in batches, in the order they were printed."""
        batch = ""
        for line in lines:
            # The reader sees every line, also those that are not kept: the result is one of the last.
            events = self._read(line) if self._read else None
            if events is None:
                batch += self._fitting(line)
            elif events and self._afford(line, events):
                yield from self._output(batch)
                yield from events
                batch = ""
            if len(batch) >= _EVENT_CHARS:
                yield from self._output(batch)
                batch = ""
        yield from self._output(batch)

    def _fitting(self, line: str) -> str:
        """As much of the line as may still be kept; nothing more is kept after a line that was cut."""
        if self._room <= 0:
            self._left_out += len(line) + 1
            return ""
        data = f"{line}\n".encode("utf-8", "replace")
        fits, self._room = data[: self._room], self._room - len(data)
        self._left_out += len(data) - len(fits)
        return _text(fits.decode("utf-8", "ignore"))

    def _afford(self, line: str, events: list[Event]) -> bool:
        """Whether the events of a line may still be kept; what the reader left out of them costs nothing."""
        affordable = self._room > 0
        if affordable:
            self._room -= min(len(line) + 1, sum(len(str(event.data)) for event in events))
        else:
            self._left_out += len(line) + 1
        return affordable

    def _output(self, text: str) -> Iterator[Event]:
        for start in range(0, len(text), _EVENT_CHARS):
            piece = text[start : start + _EVENT_CHARS]
            yield Event(EventType.AGENT_OUTPUT, {"stream": self._name, "text": piece})


def _text(text: str) -> str:
    """Text that every database stores: Postgres refuses the null character."""
    return text.replace("\0", "\ufffd")
