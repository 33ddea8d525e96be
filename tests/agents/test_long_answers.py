"""Answers of any size are whole, up to 16 MB; a longer one is a failure and never the end of a text."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from segue.agents.acp.lines import AcpLines
from segue.agents.acp.profiles import load_profiles
from segue.agents.claude.lines import ClaudeLines
from segue.agents.codex.lines import CodexLines
from segue.agents.command import CommandAgent
from segue.agents.cursor.lines import CursorLines
from segue.agents.local.launch import Reader
from segue.agents.local.output import OutputStream
from segue.domain.events import AgentText, Event
from segue.domain.job import Job, Mode, Prompt
from segue.domain.outcome import FailureKind, Outcome
from segue.domain.plan import read_plan
from segue.domain.text import LONGEST_ANSWER
from segue.flow.watched import run_agent
from segue.ports import Installation, Problem
from tests.agents.stand_in import ended

LONG = "LOCAL_ACTION: backup\n" + "a line of an answer that goes on and on\n" * 60_000 + "the end"
Printed = Callable[[str], list[dict[str, Any]]]


def acp(mode: Mode) -> AcpLines:
    return AcpLines("gemini", load_profiles()["gemini"], mode)


def claude(text: str) -> list[dict[str, Any]]:
    said = {"role": "assistant", "content": [{"type": "text", "text": text}]}
    return [{"type": "assistant", "message": said}, {"type": "result", "subtype": "success", "result": text}]


def codex(text: str) -> list[dict[str, Any]]:
    said = {"type": "item.completed", "item": {"id": "1", "type": "agent_message", "text": text}}
    return [said, {"type": "turn.completed", "usage": {}}]


def cursor(text: str) -> list[dict[str, Any]]:
    pieces = [text[start : start + 10_000] for start in range(0, len(text), 10_000)]
    parts: list[dict[str, Any]] = [
        {"type": "assistant", "message": {"content": [{"text": piece}]}, "timestamp_ms": 1}
        for piece in pieces
    ]
    return [*parts, {"type": "result", "subtype": "success", "result": text}]


def driver(text: str) -> list[dict[str, Any]]:
    pieces = [text[start : start + 10_000] for start in range(0, len(text), 10_000)]
    last = {"type": "result", "stop_reason": "end_turn", "answer": {}}
    return [*({"type": "text", "text": piece, "message": "m"} for piece in pieces), last]


READERS: dict[str, tuple[Callable[[Mode], Reader], Printed]] = {
    "claude": (ClaudeLines, claude),
    "codex": (CodexLines, codex),
    "cursor": (CursorLines, cursor),
    "acp": (acp, driver),
}


def play(reader: Reader, data: bytes) -> tuple[Outcome, list[Event]]:
    """Let a reader see what was printed, as a launch does."""
    stream = OutputStream("out", 1024, reader.read)
    events = [event for start in range(0, len(data), 2**20) for event in stream.feed(data[start:][: 2**20])]
    events += stream.close()
    outcome = reader.outcome(replace(ended(), out_tail=stream.tail), 0.0)
    return outcome, [*events, *getattr(reader, "rest", [])]


@pytest.mark.parametrize("vendor", READERS)
def test_a_long_answer_is_whole_and_so_are_its_events(vendor: str) -> None:
    make, printed = READERS[vendor]
    data = "".join(json.dumps(line) + "\n" for line in printed(LONG)).encode()
    outcome, events = play(make(Mode.ASK), data)
    assert outcome.failure is None
    assert outcome.text == LONG
    said = [event.text for event in events if isinstance(event, AgentText)]
    assert "".join(said) == LONG
    assert max(map(len, said)) <= 64 * 1024


@pytest.mark.parametrize("vendor", ["claude", "codex"])
def test_a_line_that_is_too_long_to_be_read_is_a_failure(vendor: str) -> None:
    make, printed = READERS[vendor]
    lines = [json.dumps(line) for line in printed("short")]
    cut = '{"type": "item.completed", "item": "…[9 bytes cut]'
    reader = make(Mode.ASK)
    for line in [*lines[:-1], cut, lines[-1].replace("short", "")]:
        reader.read(line)
    failure = reader.outcome(ended(), 0.0).failure
    assert failure is not None
    assert failure.kind is FailureKind.OUTPUT_LIMIT
    reader = make(Mode.ASK)
    for line in [cut, *lines]:
        reader.read(line)
    assert reader.outcome(ended(), 0.0).failure is None, "the answer came after it"


class Talker:
    """An agent that answers with a text of some length."""

    name = "talker"
    can = CommandAgent.can

    def __init__(self, size: int) -> None:
        self._size = size

    def check(self) -> list[Problem]:
        return []

    def installation(self) -> Installation:
        return Installation()

    def forget(self, token: str) -> None:
        pass

    async def run(self, job: Job) -> AsyncGenerator[Event | Outcome, None]:
        yield Outcome("x" * self._size)


@pytest.mark.parametrize(("size", "fits"), [(LONGEST_ANSWER, True), (LONGEST_ANSWER + 1, False)])
def test_an_answer_beyond_the_limit_is_a_failure(size: int, fits: bool, tmp_path: Path) -> None:
    async def emit(_event: Event) -> None:
        pass

    job = Job("t", Prompt("?"), tmp_path, Mode.ASK)
    outcome = asyncio.run(run_agent(Talker(size), job, emit))
    assert (outcome.failure is None) == fits
    if outcome.failure is not None:
        assert outcome.failure.kind is FailureKind.OUTPUT_LIMIT
        assert "16 MB" in outcome.failure.message
        assert outcome.text == ""


def test_a_plan_may_be_long_and_stand_behind_many_braces() -> None:
    step = {"title": "Do it", "description": "words " * 4000, "build_phase": "backend", "acceptance": ["ok"]}
    plan = json.dumps({"steps": [{**step, "id": str(number)} for number in range(60)]})
    before = 'if (x) { "use strict"; }\n' * 20_000
    assert len(read_plan(f"{before}\n{plan}", {}, 0)) == 60
