"""Plays the launches of `twins.toml`: events with the times at which they would have come."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from segue.domain.events import AgentText, AgentThought, AgentTool, AgentUsage, Event

Twin = dict[str, Any]
TWINS: list[Twin] = tomllib.loads(Path(__file__).with_name("twins.toml").read_text("utf-8"))["twin"]


class Moment(NamedTuple):
    """An event, or a look at the clock where there is none, with the work tree of that time."""

    at: float
    event: Event | None
    tree: str


def play(twin: Twin) -> Iterator[Moment]:
    """Yield what happens in a launch, one look at the clock every 15 seconds of silence."""
    player = _Player(twin.get("starts", True))
    for move in twin.get("before", []):
        yield from player.move(move, 0)
    for number in range(twin["rounds"]):
        for move in twin["moves"]:
            yield from player.move(move, number + 1)


class _Player:
    def __init__(self, starts: bool) -> None:
        self._starts, self._at, self._tree, self._calls, self._tokens = starts, 1000.0, "clean", 0, 0

    def move(self, move: dict[str, Any], number: int) -> Iterator[Moment]:
        def text(name: str, default: str = "") -> str:
            given = str(move.get(name, default))
            return given.replace("{nn}", f"{number:02}").replace("{n}", str(number))

        yield from self._pass(move.get("think", 5))
        self._tokens += move.get("tokens", 150)
        if "thinks" in move:
            yield self._now(AgentThought(text("thinks")))
        if "say" in move:
            yield self._now(AgentText(text("say")))
        yield self._now(AgentUsage(self._tokens * 20, self._tokens))
        if "call" in move:
            yield from self._call(move, text)
        yield from self._pass(move.get("silent", 0))

    def _call(self, move: dict[str, Any], text: Any) -> Iterator[Moment]:
        self._calls += 1
        name, given = text("tool", "Bash"), {"command": text("call")}
        key = f"call {self._calls}"
        if self._starts:
            yield self._now(AgentTool(name, given, key, "started"))
        left, every = float(move.get("took", 0.3)), float(move.get("every", 0))
        while every and left > every:
            yield from self._pass(every)
            yield self._now(AgentText(text("says")))
            left -= every
        yield from self._pass(left)
        self._tree = text("tree", self._tree)
        result = text("result") if "result" in move else None
        yield self._now(AgentTool(name, given, key, "completed", move.get("status", "success"), result))

    def _now(self, event: Event) -> Moment:
        return Moment(self._at, event, self._tree)

    def _pass(self, seconds: float) -> Iterator[Moment]:
        end = self._at + seconds
        while end - self._at > 15:
            self._at += 15
            yield Moment(self._at, None, self._tree)
        self._at = end
