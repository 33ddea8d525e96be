"""Read the JSON lines of the scripted agent: each becomes an event, all together the outcome."""

from __future__ import annotations

from typing import Any

import msgspec

from segue.agents.local.launch import ProcessEnd
from segue.agents.local.values import TEXT_CHARS
from segue.domain.event import Event, EventType
from segue.domain.failure import Failure, FailureKind
from segue.domain.outcome import Outcome, Usage


class ScriptedText(msgspec.Struct, tag="text"):
    """Something the agent says."""

    text: str


class ScriptedTool(msgspec.Struct, tag="tool"):
    """Something the agent does."""

    name: str
    input: dict[str, Any] = {}


class ScriptedUsage(msgspec.Struct, tag="usage"):
    """What the agent has used since it last said so."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0


class ScriptedResult(msgspec.Struct, tag="result"):
    """The agent's last line."""

    ok: bool
    text: str = ""


ScriptedLine = ScriptedText | ScriptedTool | ScriptedUsage | ScriptedResult
_DECODER = msgspec.json.Decoder(ScriptedLine)


class ScriptedLines:
    """Remembers what the outcome of a launch needs."""

    def __init__(self) -> None:
        self._result: ScriptedResult | None = None
        self._usage: Usage | None = None
        self._is_torn = False

    def read(self, text: str) -> list[Event] | None:
        """Return the events in a line; None if it is not one of the agent's own."""
        self._is_torn = False
        if not text.startswith("{"):
            return None
        try:
            return self._events(_DECODER.decode(text))
        except (msgspec.ValidationError, RecursionError):
            return None
        except msgspec.DecodeError:
            self._is_torn = True
            return None

    def _events(self, line: ScriptedLine) -> list[Event]:
        match line:
            case ScriptedText(text=text):
                return [Event(EventType.AGENT_TEXT, {"text": text})]
            case ScriptedTool(name=name, input=given):
                return [Event(EventType.AGENT_TOOL, {"name": name, "input": given})]
            case ScriptedUsage():
                used = msgspec.structs.asdict(line)
                self._usage = (self._usage or Usage()) + Usage(**used)
                return [Event(EventType.AGENT_USAGE, used)]
            case ScriptedResult():
                self._result = line
                return []

    def facts(self) -> dict[str, Any]:
        """Return nothing: the outcome says everything."""
        return {}

    def outcome(self, end: ProcessEnd, now: float) -> Outcome:
        """Return how the launch ended, judging by everything that was read."""
        # JSON lines are what the agent says, not how it fared.
        plain = "\n".join(line for line in end.out_tail.splitlines() if not line.startswith("{"))
        return Outcome(
            text=self._result.text[-TEXT_CHARS:] if self._result else "",
            failure=end.failure(now, plain) or self._judge_result(),
            exit_code=end.exit.code,
            usage=self._usage,
            duration=end.exit.duration,
        )

    def _judge_result(self) -> Failure | None:
        if self._is_torn:
            return Failure(FailureKind.TRUNCATED, "the agent's output stops in the middle of a line")
        if self._result is None:
            return Failure(FailureKind.NO_RESULT, "the agent ended without a result")
        if not self._result.ok:
            return Failure(FailureKind.UNKNOWN, self._result.text or "the agent reports a failure")
        return None
