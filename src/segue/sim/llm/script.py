"""The script of the model simulator: which request gets which answer."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from segue.sim.http.script import compiles
from segue.sim.llm.judge import JudgeRule, judged

Api = Literal["chat", "responses", "messages", "gemini"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ToolCall(_Part):
    """A tool the model wants to use."""

    name: str
    arguments: dict[str, Any] = {}
    id: str = ""


class Entry(_Part):
    """One answer: when it applies, what it says, and what goes wrong."""

    match: str = Field(default="", description="a regular expression found in the last user message")
    api: Api | None = Field(default=None, description="only `chat`, `responses`, `messages` or `gemini`")
    model: str | None = Field(default=None, description="only models this regular expression is found in")
    times: int = Field(default=0, description="the entry serves so many requests; 0: any number")
    reply: Any = Field(default=None, description="the answer: a text, or any other value, sent as JSON")
    tool_calls: list[ToolCall] = Field(default=[], description="tool calls: `name`, `arguments`, `id`")
    judge: JudgeRule | None = Field(
        default=None,
        description="judges by the diff: criterion key = regular expression; `default` for others",
    )
    usage: dict[str, int] = Field(default={}, description="`input`, `output`, `cached` tokens")
    status: int = Field(default=200, description="the HTTP status; from 400 on `reply` is the message")
    headers: dict[str, str] = Field(default={}, description="headers of the answer, such as retry-after")
    delay: float = Field(default=0.0, description="seconds before the answer")
    cut: int | None = Field(default=None, description="the connection is closed after so many pieces")

    @field_validator("match", "model")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        return compiles(value) if value is not None else None

    @field_validator("judge")
    @classmethod
    def _all_compile(cls, value: JudgeRule | None) -> JudgeRule | None:
        for pattern in (value or {}).values():
            if isinstance(pattern, str):
                compiles(pattern)
        return value


class Script(_Part):
    """Everything the simulator can be told; a bare list is taken for its entries."""

    on: list[Entry] = Field(
        default=[], description="the answers; the first that fits and is not used up is given"
    )
    models: list[str] = Field(default=["sim-large", "sim-small"], description="what `/v1/models` lists")

    @model_validator(mode="before")
    @classmethod
    def _from_list(cls, value: Any) -> Any:
        return {"on": value} if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class Ask:
    """A request in words all APIs share."""

    api: Api
    model: str
    users: tuple[str, ...]
    """What the user said, oldest first."""
    stream: bool
    size: int
    """Characters of everything that was sent."""

    @property
    def last(self) -> str:
        """The last user message."""
        return self.users[-1] if self.users else ""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer in words all APIs share."""

    model: str
    text: str
    tool_calls: tuple[ToolCall, ...]
    usage: Mapping[str, int]


@dataclass(slots=True)
class Answers:
    """The entries and how often each was used."""

    script: Script
    entries: list[Entry]
    _used: dict[int, int] = field(default_factory=dict)

    def pick(self, ask: Ask) -> Entry:
        """The first entry that fits and is not used up; one that echoes when none does."""
        for index, entry in enumerate(self.entries):
            if (not entry.times or self._used.get(index, 0) < entry.times) and _fits(entry, ask):
                self._used[index] = self._used.get(index, 0) + 1
                return entry
        return Entry(reply=ask.last)

    def put_first(self, entries: list[Entry]) -> None:
        """Try these before the others."""
        self.entries = [*entries, *self.entries]
        self._used = {index + len(entries): count for index, count in self._used.items()}


def answer(entry: Entry, ask: Ask) -> Answer:
    """What the entry answers."""
    text = _text(entry, ask)
    calls = tuple(
        call.model_copy(update={"id": call.id or f"call_{uuid.uuid4().hex}"}) for call in entry.tool_calls
    )
    counted = {
        "input": max(1, ask.size // 4),
        "output": max(1, len(text) // 4 + 10 * len(calls)),
        "cached": 0,
    }
    return Answer(ask.model, text, calls, counted | entry.usage)


def _text(entry: Entry, ask: Ask) -> str:
    if entry.judge is not None:
        found = judged(entry.judge, ask.users)
        return json.dumps(found, ensure_ascii=False)
    if isinstance(entry.reply, str):
        return entry.reply
    if entry.reply is None:
        return "" if entry.tool_calls else ask.last
    return json.dumps(entry.reply, ensure_ascii=False)


def _fits(entry: Entry, ask: Ask) -> bool:
    if entry.api not in (None, ask.api) or re.search(entry.model or "", ask.model) is None:
        return False
    if entry.judge is not None and judged(entry.judge, ask.users) is None:
        return False
    return re.search(entry.match, ask.last) is not None
