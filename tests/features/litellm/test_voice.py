"""What an agent says is passed on in whole words, without secrets, and not before it may be believed."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from segue.system.redact import Redactor
from tests.later import Later
from tests.system.shapes import KNOWN

provider: Any = Later("segue.features.litellm.cli_models")

SECRET = "hunter2-hunter2"


def speak(pieces: list[str], answer: str, hold: float = 0.0) -> list[str]:
    """Return what is heard of an answer that comes in these pieces."""
    heard: list[str] = []

    async def run() -> None:
        voice = provider.Voice(heard.append, Redactor([SECRET]), hold)
        for piece in pieces:
            voice.add(piece)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        voice.finish(answer)

    asyncio.run(run())
    return heard


WORDS = st.text(st.characters(exclude_categories=["C"]) | st.sampled_from(" \n\t"))


@given(st.lists(WORDS), st.sampled_from([0.0, 3600.0]))
def test_all_that_was_said_is_heard(pieces: list[str], hold: float) -> None:
    answer = "".join(pieces).rstrip()
    assert "".join(speak(pieces, answer, hold)) == Redactor([SECRET]).text(answer)


@given(st.integers(1, len(SECRET) - 1))
def test_a_secret_in_two_pieces_is_not_heard(place: int) -> None:
    heard = speak(["It is ", SECRET[:place], SECRET[place:], " of course"], "It is [redacted] of course")
    assert "".join(heard) == "It is [redacted] of course"


def test_words_are_heard_before_the_end() -> None:
    assert speak(["One ", "two", " three ", "日本", "語"], "One two three 日本語")[0] == "One"


def test_an_answer_that_was_not_said_follows() -> None:
    assert "".join(speak(["Let me see.\n"], "It is 4.")) == "Let me see.\n\nIt is 4."


def test_the_words_of_an_agent_that_fails_at_once_are_not_heard() -> None:
    heard: list[str] = []

    async def run() -> None:
        voice = provider.Voice(heard.append, Redactor())
        voice.add("API Error: overloaded\n")
        voice.drop()

    asyncio.run(run())
    assert heard == []


def test_a_secret_of_several_words_is_not_heard() -> None:
    heard: list[str] = []

    async def run() -> None:
        voice = provider.Voice(heard.append, Redactor([KNOWN["words"]]), 0.0)
        for word in f"It is {KNOWN['words']} of course".split():
            voice.add(f"{word} ")
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        voice.finish("")

    asyncio.run(run())
    assert "".join(heard) == "It is [redacted] of course"
