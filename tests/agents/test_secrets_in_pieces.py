"""A secret that comes in pieces, however an agent's output is cut, is not in what the journal gets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.agents.local.launch import Reader
from segue.agents.local.output import OutputStream
from segue.domain.events import AgentOutput, AgentText, Event
from segue.system.redact import MARK, Redactor
from tests.system.shapes import SHAPES, wrapped
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


def test_a_long_output_is_cut_where_no_key_is() -> None:
    key = SHAPES["rsa"]
    for before in range(32_000, 33_400, 100):
        text = "word " * (before // 5) + "\n" + key + "\nand more\n"
        events = read(None, text.encode(), [])
        shown = [Redactor().struct(event) for event in events]
        assert key.split("\n")[5] not in repr(shown)
        assert key.split("\n")[-2] not in repr(shown)
