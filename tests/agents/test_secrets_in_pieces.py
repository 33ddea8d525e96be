"""A secret that comes in pieces, however an agent's output is cut, is not in what the journal gets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.agents.acp.lines import AcpLines
from segue.agents.acp.profiles import Profile
from segue.agents.claude.lines import ClaudeLines
from segue.agents.cloud.calls import Freshness, SseFrame
from segue.agents.cloud.transcript import Transcript
from segue.agents.codex.lines import CodexLines
from segue.agents.cursor.lines import CursorLines
from segue.agents.cursor_cloud.stream import StreamReader
from segue.agents.local.launch import Reader
from segue.agents.local.output import OutputStream
from segue.domain.events import AgentOutput, AgentText, Event
from segue.domain.job import Mode
from segue.system.redact import MARK, Redactor
from tests.system.shapes import ENCODINGS, SHAPES, wrapped
from tests.system.spelling import SECRETS, spelt

CASES = SECRETS.flatmap(lambda secret: st.tuples(st.just(secret), spelt(secret)))
CUTS = st.lists(st.integers(0, 400), max_size=8)


def cut(text: str | bytes, cuts: list[int]) -> list[str | bytes]:
    edges = [0, *sorted(place % (len(text) + 1) for place in cuts), len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


def read(reader: Reader | None, data: bytes, cuts: list[int]) -> list[Event]:
    stream = OutputStream("out", 10**6, reader.read if reader else None)
    events = [event for piece in cut(data, cuts) for event in stream.feed(bytes(piece))]  # type: ignore[arg-type]
    return [*events, *stream.close()]


def check(secret: str, text: str, events: list[Event]) -> None:
    redactor = Redactor([secret])
    stored = [redactor.struct(event) for event in events]
    assert MARK in repr(stored)
    assert secret not in repr(stored)
    assert text not in "".join(event.text for event in stored if isinstance(event, AgentText))


def lines_of(*lines: Mapping[str, object]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


@settings(deadline=None)
@given(CASES, CUTS)
def test_a_program_that_prints_text(case: tuple[str, str], cuts: list[int]) -> None:
    secret, text = case
    check(secret, text, read(None, f"it says <{text}> and more\n".encode(), cuts))


@settings(deadline=None)
@given(CASES, CUTS, CUTS)
def test_an_agent_that_sends_its_message_in_chunks(
    case: tuple[str, str], cuts: list[int], chunks: list[int]
) -> None:
    secret, text = case
    pieces = cut(f"it says <{text}> and more", chunks)
    data = lines_of(
        *({"type": "text", "text": piece, "message": "1"} for piece in pieces), {"type": "result"}
    )
    check(secret, text, read(AcpLines("gemini", Profile(argv=["gemini"]), Mode.EDIT), data, cuts))


@settings(deadline=None)
@given(CASES, CUTS)
def test_agents_that_print_whole_messages(case: tuple[str, str], cuts: list[int]) -> None:
    secret, text = case
    said = f"it says <{text}> and more"
    message = {"role": "assistant", "content": [{"type": "text", "text": said}]}
    check(
        secret, text, read(ClaudeLines(Mode.EDIT), lines_of({"type": "assistant", "message": message}), cuts)
    )
    check(
        secret, text, read(CursorLines(Mode.EDIT), lines_of({"type": "assistant", "message": message}), cuts)
    )
    item = {"type": "item.completed", "item": {"id": "1", "type": "agent_message", "text": said}}
    check(secret, text, read(CodexLines(Mode.EDIT), lines_of(item), cuts))


@settings(deadline=None)
@given(CASES, CUTS)
def test_a_cloud_agent_that_streams(case: tuple[str, str], chunks: list[int]) -> None:
    secret, text = case
    seen = Transcript(10**6)
    reader = StreamReader(seen)
    frames = [
        SseFrame(str(number), "assistant", json.dumps({"text": piece}))
        for number, piece in enumerate(cut(f"it says <{text}> and more", chunks))
    ]
    for frame in frames:
        reader.read(frame, Freshness.NEW)
    reader.close()
    check(secret, text, seen.take())


def test_a_long_message_is_cut_between_words() -> None:
    secret = "short-1!"
    seen = Transcript(10**6)
    reader = StreamReader(seen)
    said = json.dumps({"text": f"{secret} " * 10_000})
    reader.read(SseFrame("1", "assistant", said), Freshness.NEW)
    reader.close()
    texts = [
        event.text for event in map(Redactor([secret]).struct, seen.take()) if isinstance(event, AgentText)
    ]
    assert len(texts) > 2
    assert "".join(texts) == f"{MARK} " * 10_000


@pytest.mark.parametrize("name", ["rsa", "openssh", "github", "pypi", "google"])
def test_a_key_is_in_no_two_events_however_its_lines_come(name: str) -> None:
    """Behind the signs of a diff, and with a chunk that ends in each of its lines."""
    lines = ["It says:", *(f"+{line}" for line in wrapped(SHAPES[name], 64, "").split("\n")), "and more"]
    text = "\n".join(lines) + "\n"
    redactor = Redactor()
    for end in [place + 1 for place, char in enumerate(text) if char == "\n"]:
        events = read(None, text.encode(), [end])
        out = "".join(redactor.struct(event).text for event in events if isinstance(event, AgentOutput))
        assert out.startswith("It says:\n+[redacted]"), out
        assert out.endswith("\nand more\n")
        assert len(out) < 60


@pytest.mark.parametrize("way", ["wrapped in a box", "wrapped in a quote", "wrapped in a diff"])
def test_a_wrapped_token_is_in_no_two_events(way: str) -> None:
    for name in ("github", "github app", "gitlab", "npm", "openai", "hugging face"):
        text = f"It says:\n{ENCODINGS[way](SHAPES[name])}\nand more\n"
        for end in [place + 1 for place, char in enumerate(text) if char == "\n"]:
            shown = [Redactor().struct(event) for event in read(None, text.encode(), [end])]
            assert SHAPES[name][24:36] not in repr(shown), (name, shown)


def test_a_long_output_is_cut_where_no_key_is() -> None:
    key = SHAPES["rsa"]
    for before in range(32_000, 33_400, 100):
        text = "word " * (before // 5) + "\n" + key + "\nand more\n"
        events = read(None, text.encode(), [])
        shown = [Redactor().struct(event) for event in events]
        assert key.split("\n")[5] not in repr(shown)
        assert key.split("\n")[-2] not in repr(shown)
