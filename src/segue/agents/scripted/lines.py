"""Reads the JSON lines of the scripted agent: each becomes an event, all together the outcome."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from segue.agents.local import Ended
from segue.domain.event import Event, EventType
from segue.domain.failure import Failure, FailureKind
from segue.domain.outcome import Outcome, Usage

_TEXT_CHARS = 64 * 1024


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Text(_Line):
    """Something the agent says."""

    type: Literal["text"]
    text: str


class Tool(_Line):
    """Something the agent does."""

    type: Literal["tool"]
    name: str
    input: dict[str, Any] = {}


class Used(_Line):
    """What the agent used since it last said so."""

    type: Literal["usage"]
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0


class Result(_Line):
    """The agent's last word."""

    type: Literal["result"]
    ok: bool
    text: str = ""


_LINE: TypeAdapter[Text | Tool | Used | Result] = TypeAdapter(
    Annotated[Text | Tool | Used | Result, Field(discriminator="type")]
)


class ScriptedLines:
    """Remembers of a launch what its outcome needs, whatever else was printed."""

    def __init__(self) -> None:
        self._result: Result | None = None
        self._usage: Usage | None = None
        self._cut = False

    def read(self, text: str) -> list[Event] | None:
        """The events in a line; None when it is not one of the agent's own."""
        self._cut = False
        if not text.startswith("{"):
            return None
        try:
            line = _LINE.validate_json(text)
        except ValidationError as error:
            self._cut = error.errors()[0]["type"] == "json_invalid"
            return None
        return self._event(line)

    def _event(self, line: Text | Tool | Used | Result) -> list[Event]:
        match line:
            case Text(text=text):
                return [Event(EventType.AGENT_TEXT, {"text": text})]
            case Tool(name=name, input=given):
                return [Event(EventType.AGENT_TOOL, {"name": name, "input": given})]
            case Used():
                used = Usage(line.input_tokens, line.output_tokens, line.cost_usd)
                self._usage = (self._usage or Usage()) + used
                return [Event(EventType.AGENT_USAGE, line.model_dump(exclude={"type"}))]
            case Result():
                self._result = line
                return []

    def outcome(self, ended: Ended, now: float) -> Outcome:
        """How the launch ended, in view of everything that was read."""
        result = self._result
        return Outcome(
            text=result.text[-_TEXT_CHARS:] if result else "",
            failure=ended.failure(now, _unstructured(ended.out_tail)) or self._missing(),
            exit_code=ended.exit.code,
            usage=self._usage,
            duration=ended.exit.duration,
        )

    def _missing(self) -> Failure | None:
        if self._cut:
            return Failure(FailureKind.TRUNCATED, "the agent's output stops in the middle of a line")
        if self._result is None:
            return Failure(FailureKind.NO_RESULT, "the agent ended without a result")
        if not self._result.ok:
            return Failure(FailureKind.UNKNOWN, self._result.text or "the agent says that it failed")
        return None


def _unstructured(tail: str) -> str:
    """The plain lines alone: what stands inside of JSON is what the agent says, not how it fared."""
    return "\n".join(line for line in tail.splitlines() if not line.startswith("{"))
