"""What an agent says in a turn is read whole, or refused whole."""

from __future__ import annotations

import pytest

from segue.domain.events import AgentStarted, AgentText
from segue.domain.outcome import Failure, FailureKind, Outcome
from segue.domain.text import LONGEST_ANSWER
from segue.parts.bridge.context import TurnTranscript

PIECE = 16 * 1024


def say(size: int, last: str = "") -> TurnTranscript:
    said = TurnTranscript(set())
    for _ in range(size // PIECE):
        said.hear(AgentText("x" * PIECE))
    said.hear(AgentText("x" * (size % PIECE) + last))
    return said


@pytest.mark.parametrize("whole", [True, False])
def test_a_turn_beyond_the_limit_is_a_failure_and_nothing_of_it_is_read(whole: bool) -> None:
    line = "\nLOCAL_ACTION: open_app"
    fits, over = LONGEST_ANSWER - len(line), LONGEST_ANSWER + 1 - len(line)
    text, failure = say(fits, line).conclude(Outcome("x" * fits + line), whole)
    assert (len(text), text.endswith(line), failure) == (LONGEST_ANSWER, True, None)
    text, failure = say(over, line).conclude(Outcome("x" * over + line), whole)
    assert (text, failure and failure.kind) == ("", FailureKind.OUTPUT_LIMIT)


def test_many_messages_count_together_only_where_the_whole_turn_is_read() -> None:
    said = say(LONGEST_ANSWER)
    said.hear(AgentText("Done."))
    assert said.conclude(Outcome("Done."), whole=False) == ("Done.", None)
    assert said.conclude(Outcome("Done."), whole=True)[0] == ""


def test_the_agents_own_failure_counts_before_its_length() -> None:
    crash = Failure(FailureKind.CRASH, "it fell")
    text, failure = say(LONGEST_ANSWER + 1).conclude(Outcome("", crash), whole=True)
    assert (text, failure) == ("", crash)


def test_messages_are_separated_and_pieces_are_joined() -> None:
    started: set[str] = set()
    said = TurnTranscript(started)
    said.hear(AgentStarted(agent_id="bc-1"))
    for text in ("x" * PIECE, "yz", "LOCAL_ACTION: open_app"):
        said.hear(AgentText(text))
    text, failure = said.conclude(Outcome("last"), whole=True)
    assert text == "x" * PIECE + "yz\n\nLOCAL_ACTION: open_app\n\nlast"
    assert (failure, started) == (None, {"bc-1"})
