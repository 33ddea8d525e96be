"""Read the JSON lines of a local agent: the part that all vendors have in common.

No line is fatal: one of an unknown type is stored in short form and counted, one that is not JSON is kept as
output.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from types import MethodType
from typing import Any, TypeVar
from weakref import WeakMethod

from segue.agents.local.launch import ProcessEnd
from segue.agents.local.speech import Hear, Speech
from segue.agents.local.values import TEXT_CHARS, Json, as_text, clip, parse_object, shrink, split
from segue.domain.events import AgentRaw, AgentText, AgentThought, AgentTool, Event
from segue.domain.outcome import Failure, FailureKind, Outcome, Usage

R = TypeVar("R")

Handler = Callable[[Json], list[Event]]

_RAW_CHARS = 2000
_PLAIN_LINES = 20
_PLAIN_CHARS = 2000
_CUT_MARK = " bytes cut]"


class LineReader:
    """Passes each line to the handler of its type, and remembers what every outcome needs."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        prepare: Callable[[Json], None] | None = None,
        hear: Hear | None = None,
        envelope: Collection[str] = (),
    ) -> None:
        """`prepare` sees every JSON line before its handler does; `hear` takes what is said as it is said.

        The first line of a stream has one of the fields of the `envelope`; until then JSON is what the
        program says, in plain text.
        """
        self._handlers = {kind: _hold(handler) for kind, handler in handlers.items()}
        self.speech = Speech(hear)
        self._prepare = _hold(prepare) if prepare is not None else None
        self._plain: deque[str] = deque(maxlen=_PLAIN_LINES)
        self._envelope = envelope
        self._early: list[Json] = []
        self._is_known = False
        self.counts = Counter[str]()
        self.session: str | None = None
        """The session's id, which Claude and Cursor print with every line."""
        self.model: str | None = None
        self.usage: Usage | None = None
        self.message = ""
        """The last message for the user."""
        self.is_torn = False
        """True if the output stops in the middle of a JSON line."""
        self.lost = False
        """True if a line was too long to be read and nothing was said since: it may have been the answer."""

    @property
    def plain_text(self) -> str:
        """The last lines that are not JSON."""
        return "\n".join(self._plain)

    def outcome(self, end: ProcessEnd, text: str, failure: Failure | None, facts: Json) -> Outcome:
        """Return how the launch ended; the counts by name are among its facts."""
        if failure is None and self.lost:
            failure = self.too_long()
        return Outcome(
            text=text,
            failure=failure,
            exit_code=end.exit.code,
            session=self.session,
            model=self.model,
            usage=self.usage,
            duration=end.exit.duration,
            facts={**dict(sorted(self.counts.items())), **facts},
        )

    def read(self, text: str) -> list[Event] | None:
        """Return the events in a line; None if it is plain text."""
        if not text.startswith("{"):
            self.is_torn = self.is_torn and not text.strip()
            self._plain.append(text[:_PLAIN_CHARS])
            return None
        line = parse_object(text)
        if line is None:
            return self._keep_broken(text)
        self.is_torn = False
        kind = line.get("type")
        if not self._is_known and not self._begins_stream(line, kind):
            self._plain.append(text[:_PLAIN_CHARS])
            self._early += [line] if len(self._early) < _PLAIN_LINES else []
            return None
        early, self._early, self._is_known = self._early, [], True
        before = [event for one in early for event in self.keep_unknown(one)]
        return before + self._read_object(line, kind)

    def _read_object(self, line: Json, kind: Any) -> list[Event]:
        self.session = as_text(line.get("session_id")) or self.session
        if self._prepare is not None and (prepare := self._prepare()) is not None:
            prepare(line)
        held = self._handlers.get(kind) if isinstance(kind, str) else None
        handler = held() if held is not None else None
        return handler(line) if handler is not None else self.keep_unknown(line)

    def _begins_stream(self, line: Json, kind: Any) -> bool:
        if not self._envelope:
            return isinstance(kind, str)
        known = isinstance(kind, str) and kind in self._handlers
        return known and any(name in line for name in self._envelope)

    def _keep_broken(self, text: str) -> list[Event] | None:
        self.counts["broken_lines"] += 1
        # A line that we have cut because of its length was written completely.
        self.is_torn = not text.endswith(_CUT_MARK)
        self.lost = self.lost or not self.is_torn
        if len(text) <= _RAW_CHARS:
            return None
        return [AgentRaw("broken", text=clip(text, _RAW_CHARS))]

    def keep_unknown(self, line: Json) -> list[Event]:
        """Count a line that nobody understands, and store it in short form."""
        self.counts["unknown_lines"] += 1
        return [raw_event(line)]

    def say(self, text: str, is_subagent: bool = False) -> list[Event]:
        """Return the event of a message. What a subagent says is for the agent, not for the user."""
        if not text.strip():
            return []
        if not is_subagent:
            self.message, self.lost = text, False
            self.speech.end(text)
        return [AgentText(piece, is_subagent) for piece in split(text, TEXT_CHARS)]

    def too_long(self) -> Failure:
        """Return the failure for an answer that may have been in a line that is too long to be read."""
        return Failure(FailureKind.OUTPUT_LIMIT, "a line that the agent printed is too long to be read")

    def finish_tool(self, name: str, key: str, given: Any, status: str | None, result: Any) -> Event:
        """Count a use of a tool that has ended, and return its event."""
        self.counts["tools"] += 1
        self.counts[f"tools_{status or 'unknown'}"] += 1
        return AgentTool(name, given, key, "completed", status or "", shrink(result))


def _hold(handler: Callable[[Json], R]) -> Callable[[], Callable[[Json], R] | None]:
    """Hold a handler, but not its owner, which has the reader: a server would keep both for long."""
    return WeakMethod(handler) if isinstance(handler, MethodType) else lambda: handler


def start_tool(name: str, key: str, given: Any) -> Event:
    """Return the event of a tool that starts."""
    return AgentTool(name, given, key, "started")


def raw_event(line: Json) -> Event:
    """Return a line as it came, in short form."""
    return AgentRaw(clip(str(line.get("type")), 100), line=shrink(dict(line)))


def thinking_event(text: str) -> Event:
    """Return the event of a thought."""
    return AgentThought(clip(text, TEXT_CHARS))


def ignore(_line: Json) -> list[Event]:
    """Handle lines that repeat what others say."""
    return []


def read_id(value: Any) -> str:
    """Return an id, short enough to be stored."""
    return clip(as_text(value), 200)
