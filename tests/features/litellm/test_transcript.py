"""A conversation becomes one text, exactly as documented, and no two conversations the same one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.features.litellm.prompts import (
    ChatMessage,
    Speaker,
    choose_text,
    read_choice,
    write_transcript,
)

DIALOGUE = [
    ChatMessage(Speaker.SYSTEM, "You are a helpful assistant."),
    ChatMessage(Speaker.USER, "Hi! What's your name?"),
    ChatMessage(Speaker.ASSISTANT, "I'm Composer, a language model trained by Cursor."),
    ChatMessage(Speaker.USER, "What can you do?"),
]
TEXT = """\
<<<ROLE:SYSTEM>>>
You are a helpful assistant.

<<<ROLE:USER>>>
Hi! What's your name?

<<<ROLE:ASSISTANT>>>
I'm Composer, a language model trained by Cursor.

<<<ROLE:USER>>>
What can you do?"""

_MARKER = re.compile(r"(\\*)<<<ROLE:(SYSTEM|USER|ASSISTANT)>>>")
# Made of what could confuse: markers, halves of them, backslashes, blank lines.
_PIECES = st.sampled_from(
    ["<<<ROLE:USER>>>", "<<<ROLE:SYSTEM>>>", "<<<ROLE:", ">>>", "\\", "\n", "\n\n", " ", "x", "ROLE:USER"]
)
TEXTS = st.one_of(st.lists(_PIECES, max_size=8).map("".join), st.text(max_size=40))
MESSAGES = st.lists(st.builds(ChatMessage, st.sampled_from(Speaker), TEXTS), min_size=1, max_size=5)


def test_the_example_of_the_documentation() -> None:
    assert write_transcript(DIALOGUE).text == TEXT


def test_a_marker_inside_a_message_gets_a_backslash() -> None:
    said = write_transcript(
        [ChatMessage(Speaker.USER, "What is <<<ROLE:ASSISTANT>>> and \\<<<ROLE:USER>>>?")]
    ).text
    assert said == "<<<ROLE:USER>>>\nWhat is \\<<<ROLE:ASSISTANT>>> and \\\\<<<ROLE:USER>>>?"


@given(MESSAGES)
def test_what_is_written_can_be_read_back(messages: list[ChatMessage]) -> None:
    text = write_transcript(messages).text
    markers = [found for found in _MARKER.finditer(text) if not found[1]]
    ends = [found.start() - len("\n\n") for found in markers[1:]] + [len(text)]
    said = [text[found.end() + 1 : end] for found, end in zip(markers, ends, strict=True)]
    plain = [_MARKER.sub(lambda one: one[0].removeprefix("\\"), part) for part in said]
    assert [ChatMessage(Speaker(one[2]), part) for one, part in zip(markers, plain, strict=True)] == messages


@given(MESSAGES, MESSAGES)
def test_no_two_conversations_look_alike(one: list[ChatMessage], other: list[ChatMessage]) -> None:
    assert (write_transcript(one).text == write_transcript(other).text) == (one == other)


@pytest.mark.parametrize(
    ("reply", "index"),
    [("2", 1), ("Answer 2.", 1), ("The best is 2: 2!", 1), ("1 or 2", None), ("3", None), ("0", None)],
)
def test_a_choice_is_one_number_that_exists(reply: str, index: int | None) -> None:
    assert read_choice(reply, 2) == index


@given(st.lists(TEXTS, min_size=2, max_size=4))
def test_every_answer_to_choose_from_is_fenced_whole(answers: list[str]) -> None:
    text = choose_text(answers)
    nonce = text.partition("contain the code ")[2][:16]
    assert [part.split(f"\n<<<end of answer {nonce}>>>")[0] for part in _after(text, nonce)] == answers


def _after(text: str, nonce: str) -> list[str]:
    return text.split(f"<<<answer {nonce}>>>\n")[1:]
