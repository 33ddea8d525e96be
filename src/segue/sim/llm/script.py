"""The script of the model simulator: which request gets which answer; and what all APIs have in common."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from segue.domain.options import Options
from segue.sim.script import Deck, check_pattern, equals, find_quote, matches, read_block

JudgeRule = dict[str, str | bool]
"""Criterion key → the regular expression that must be found, or the answer; `default` for others."""

_NO_QUOTE = "(the evidence shows nothing to quote)"


def judge(rule: JudgeRule, users: Sequence[str]) -> dict[str, Any] | None:
    """Return the verdict on the newest message that asks for one; None if there is none."""
    for text in reversed(users):
        criteria = read_block("criteria", text)
        if criteria is not None:
            shown = read_block("diff", text) or ""
            entries = [_entry(rule, key, shown, read_block("checks", text) or "") for key in _keys(criteria)]
            answer = {"criteria": entries, "reasoning": "The diff was searched for regular expressions."}
            if '"action"' not in text:
                return answer
            action = "PROCEED" if all(entry["met"] for entry in entries) else "RETRY"
            return {**answer, "action": action, "request": "", "caveats": []}
    return None


def _entry(rule: JudgeRule, key: str, diff: str, checks: str) -> dict[str, Any]:
    wanted = rule.get(key, rule.get("default", True))
    if isinstance(wanted, bool):
        said = _quote_any(diff, checks) if wanted else "The script says that this is not met."
        return {"key": key, "met": wanted, "evidence": said}
    found = re.search(wanted, diff, re.MULTILINE)
    if found is None:
        return {"key": key, "met": False, "evidence": f"Nothing in the diff looks like {wanted}"}
    start = diff.rfind("\n", 0, found.start()) + 1
    return {"key": key, "met": True, "evidence": diff[start:].partition("\n")[0]}


def _quote_any(diff: str, checks: str) -> str:
    """Return a line that can be quoted: an added one, else one of the checks."""
    return find_quote(diff) or next((line for line in checks.splitlines() if line.strip()), _NO_QUOTE)


def _keys(criteria: str) -> list[str]:
    keys = []
    for line in criteria.splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and "key" in found:
            keys.append(str(found["key"]))
    return keys


LlmApi = Literal["chat", "responses", "messages", "gemini"]


class LlmToolCall(Options, frozen=True):
    """A tool the model wants to use."""

    name: str
    arguments: Mapping[str, Any] = {}
    id: str = ""


class LlmEntry(Options, frozen=True):
    """One answer: when it applies, what it says, and what goes wrong."""

    match: str = ""
    """a regular expression found in the last user message"""
    api: LlmApi | None = None
    """only `chat`, `responses`, `messages` or `gemini`"""
    model: str | None = None
    """only models this regular expression is found in"""
    times: int = 0
    """the entry answers this many requests; 0: any number"""
    reply: Any = None
    """the answer: a text, or any other value, sent as JSON"""
    tool_calls: Sequence[LlmToolCall] = []
    """tool calls: `name`, `arguments`, `id`"""
    judge: JudgeRule | None = None
    """judges by the diff: criterion key = regular expression; `default` for others"""
    usage: Mapping[str, int] = {}
    """`input`, `output`, `cached` tokens"""
    status: int = 200
    """the HTTP status; from 400 on `reply` is the message, or the fields of the error"""
    late: int | None = None
    """the error comes inside of an answer with status 200, after this many pieces"""
    finish: Literal["refusal", "length"] | None = None
    """the answer ends because the model refuses, or because it became too long"""
    headers: Mapping[str, str] = {}
    """headers of the answer, such as retry-after"""
    delay: float = 0.0
    """seconds before the answer"""
    cut: int | None = None
    """the connection is closed after this many pieces"""

    def __post_init__(self) -> None:
        for pattern in (self.match, self.model, *(self.judge or {}).values()):
            if isinstance(pattern, str):
                check_pattern(pattern)


class LlmScript(Options, frozen=True):
    """Everything a script can say."""

    on: Sequence[LlmEntry] = []
    """the answers; the first that matches and is not used up is given"""
    models: Sequence[str] = msgspec.field(default_factory=lambda: ["sim-large", "sim-small"])
    """what `/v1/models` lists"""


class LlmRequest(Struct, frozen=True):
    """A request, in terms that all APIs share."""

    api: LlmApi
    model: str
    users: tuple[str, ...]
    """The user messages, oldest first."""
    stream: bool
    size: int
    """Characters of all messages."""

    @property
    def last(self) -> str:
        """The last user message."""
        return self.users[-1] if self.users else ""


class LlmAnswer(Struct, frozen=True):
    """An answer, in terms that all APIs share."""

    model: str
    text: str
    tool_calls: tuple[LlmToolCall, ...]
    usage: Mapping[str, int]
    finish: Literal["refusal", "length"] | None = None


def pick_entry(deck: Deck[LlmEntry], request: LlmRequest) -> LlmEntry:
    """Return the entry that answers the request; without one, the last user message comes back."""
    tests = {
        "api": equals(request.api),
        "model": matches(request.model),
        "match": matches(request.last),
        "judge": lambda rule: judge(rule, request.users) is not None,
    }
    return deck.pick(tests) or LlmEntry(reply=request.last)


def compose_answer(entry: LlmEntry, request: LlmRequest) -> LlmAnswer:
    """Make the answer of an entry."""
    text = _compose_text(entry, request)
    calls = tuple(
        msgspec.structs.replace(call, id=call.id or f"call_{uuid.uuid4().hex}") for call in entry.tool_calls
    )
    usage = {
        "input": max(1, request.size // 4),
        "output": max(1, len(text) // 4 + 10 * len(calls)),
        "cached": 0,
    }
    return LlmAnswer(request.model, text, calls, {**usage, **entry.usage}, entry.finish)


def _compose_text(entry: LlmEntry, request: LlmRequest) -> str:
    if entry.judge is not None:
        return json.dumps(judge(entry.judge, request.users), ensure_ascii=False)
    if isinstance(entry.reply, str):
        return entry.reply
    if entry.reply is None:
        return "" if entry.tool_calls else request.last
    return json.dumps(entry.reply, ensure_ascii=False)


_PIECE = 16


class BadRequest(Exception):
    """The request is invalid; the text says why."""


def require_objects(body: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return a field that must be a non-empty list of objects."""
    value = body.get(name)
    if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
        raise BadRequest(f"Invalid type for '{name}': expected a non-empty array of objects.")
    return value


def join_text(content: Any) -> str:
    """Join the text of a message, a string or a list of parts; results of tools count as text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = []
    for part in content:
        if isinstance(part, dict):
            inner = part.get("text", part.get("content", ""))
            parts.append(join_text(inner))
    return "\n".join(part for part in parts if part)


def split_text(text: str) -> list[str]:
    """Split the text into small pieces, as a model would stream it."""
    return [text[start : start + _PIECE] for start in range(0, len(text), _PIECE)]


def encode_data(data: dict[str, Any]) -> bytes:
    """Encode an event without a name."""
    return f"data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def encode_event(data: dict[str, Any]) -> bytes:
    """Encode an event that is named after its type."""
    return f"event: {data['type']}\n".encode() + encode_data(data)
