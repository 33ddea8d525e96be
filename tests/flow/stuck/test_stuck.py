"""Agents that turn in circles are noticed and ended; honest work that only looks like it never is."""

from __future__ import annotations

import asyncio

import pytest

from segue.domain.events import AgentStuck, AgentTool, Event
from segue.domain.outcome import FailureKind
from segue.flow.stuck import StuckRule, StuckWatch
from tests.flow.stuck.twins import TWINS, Moment, Twin, play

_PATIENCE = 300.0
_MINUTE = 60.0
_TURN = 5.0
"""Seconds a model takes for a turn in these launches."""


class Watched:
    """A launch that is played to a watch, whose clock is that of the events."""

    def __init__(self, adopted: bool = False, patience: float = _PATIENCE) -> None:
        self.said: list[str] = []
        self.heard: list[tuple[float, AgentStuck]] = []
        self._moment = Moment(0, None, "")
        self.watch = StuckWatch(
            StuckRule(adopted), "3", patience, self._emit, self._look, self._tell, lambda: self._moment.at
        )

    def play(self, moments: list[Moment]) -> float | None:
        """Play until the agent is to be ended; return when, or None."""
        return asyncio.run(self._play(moments))

    async def _play(self, moments: list[Moment]) -> float | None:
        for self._moment in moments:
            await (self.watch.judge() if self._moment.event is None else self.watch.see(self._moment.event))
            if self.watch.failure is not None:
                return self._moment.at
        return None

    async def _emit(self, event: Event) -> None:
        assert isinstance(event, AgentStuck)
        self.heard.append((self._moment.at, event))

    async def _look(self) -> str:
        return self._moment.tree

    async def _tell(self, text: str) -> bool:
        self.said.append(text)
        return True


def _named(kind: str) -> list[object]:
    return [pytest.param(twin, id=twin["name"]) for twin in TWINS if twin["is"] == kind]


@pytest.mark.parametrize("twin", _named("honest"))
def test_honest_work_is_never_ended(twin: Twin) -> None:
    launch = Watched()
    assert launch.play(list(play(twin))) is None
    assert [event.reason for _, event in launch.heard if not twin.get("noticed")] == []


@pytest.mark.parametrize("twin", _named("stuck"))
def test_a_circle_is_noticed_told_once_and_ended(twin: Twin) -> None:
    launch = Watched()
    moments = list(play(twin))
    ended = launch.play(moments)
    if twin.get("missed"):
        assert ended is None
        return
    (noticed, event), *more = launch.heard
    assert event.reason
    assert event.ends == _PATIENCE
    assert more == []
    steps = len(twin["moves"])
    # Three rounds of a circle are needed, however long one takes.
    assert noticed - moments[0].at <= max(_MINUTE, 4 * steps * 1.5 * _TURN)
    assert len(launch.said) == 1
    assert event.reason in launch.said[0]
    assert ended is not None
    assert ended - noticed >= _PATIENCE
    assert launch.watch.failure is not None
    assert launch.watch.failure.kind is FailureKind.STUCK


def _calls(count: int, begin: float = 0.0, name: str = "make", seconds: float = 5.0) -> list[Moment]:
    """Return calls with the same result."""
    return [
        Moment(begin + number * seconds, AgentTool("Bash", name, "", "completed", "failure", "no"), "")
        for number in range(count)
    ]


def test_who_finds_something_new_is_left_alone_and_told_no_second_time() -> None:
    launch = Watched()
    ended = launch.play([*_calls(20), *_calls(1, 100, "ls"), *_calls(20, 105, "ls")])
    assert ended is None
    assert [bool(event.reason) for _, event in launch.heard] == [True, False, True]
    assert [event.told for _, event in launch.heard] == [True, False, True]
    assert len(launch.said) == 1


def test_who_begins_a_long_build_after_a_circle_is_not_ended() -> None:
    launch = Watched()
    build = Moment(100, AgentTool("Bash", "make all", "b", "started"), "")
    silence = [Moment(100 + 15.0 * number, None, "") for number in range(1, 100)]
    assert launch.play([*_calls(15), build, *silence]) is None


def test_what_an_adopted_agent_printed_before_is_read_past() -> None:
    """Its events come at once, so that a long poll looks like a quick circle."""
    launch = Watched(adopted=True)
    assert launch.play(_calls(200, seconds=0.01)) is None
    assert launch.heard == []
    assert launch.play(_calls(90, begin=10)) is not None


def test_without_the_setting_it_is_noticed_and_never_ended() -> None:
    launch = Watched(patience=0)
    assert launch.play(_calls(900)) is None
    assert [event.ends for _, event in launch.heard] == [None]
