"""Notice an agent that is busy but turns in circles: it measures what repeats, and knows no tool by its name.

News is a call with a result that this launch has not seen yet. What follows the last news is a circle where a
few steps, each a call with its result and the work tree afterwards, come again and again. Whoever waits is
not in a circle: a call that takes as long as it says, or long, starts the count again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from segue.domain.amounts import format_duration
from segue.domain.errors import WorkspaceError
from segue.domain.events import AgentStuck, AgentText, AgentThought, AgentTool, AgentUsage, Event
from segue.domain.outcome import Failure, FailureKind
from segue.domain.question import find_question
from segue.system.git.repository import Repository

_ROUNDS = 3
"""How often the steps of a circle are seen before it is one."""
_LEAST = 5
"""How many steps of a circle are seen at least."""
_LONGEST = 8
"""How many different steps a circle has at most."""
_TURNS = 12
"""How often tokens are used for nothing new before that is noticed."""
_UNANSWERED = 45.0
"""Seconds of silence after a question."""
_LONG_CALL = 10.0
"""Seconds after which a call is taken for one that waits."""
_CAUGHT_UP = 2.0
"""Seconds without an event that nobody needs to read what an adopted agent printed before."""
_SHOWN = 100

_ID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_CLOCK = r"(?:\d{4}-\d\d-\d\d[T ])?\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?Z?"
_VARYING = re.compile(
    rf"{_ID}|0x[0-9a-f]+|{_CLOCK}|(?<=/tmp/)[^\s/:]+|\d+(?:\.\d+)? ?[mµun]s\b", re.IGNORECASE
)
_SECONDS = re.compile(r"\b(\d+)\.\d+ ?(?=s\b|sec)")
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")


class CircleStep(Struct, frozen=True):
    """A call or words that are known, and what the work tree was afterwards."""

    what: str
    tree: str = ""


class _OpenCall(Struct, frozen=True):
    at: float
    given: Any


class StuckRule:
    """Sees the events of one launch, each with its time in seconds, and says whether it turns in circles."""

    def __init__(self, adopted: bool = False) -> None:
        """`adopted`: what the agent did before comes first, faster than it happened, and counts as known."""
        self._reads_past = adopted
        self._at: float | None = None
        self._known: set[str] = set()
        self._trees: set[str] = set()
        self._labels: dict[str, str] = {}
        self._open: dict[str, _OpenCall] = {}
        self._circle: list[CircleStep] = []
        self._turns = self._tokens = 0
        self._acted = False
        self._asked: tuple[float, str] | None = None

    def is_known(self, event: Event) -> bool:
        """Return whether the event is a call with a result that was seen before: the tree says the rest."""
        return (
            isinstance(event, AgentTool) and event.state != "started" and self._digest(event) in self._known
        )

    def see(self, event: Event, at: float, tree: str = "") -> None:
        """Take in an event; `tree` is what the work tree is after a call that is known."""
        before, self._at = self._at if self._at is not None else at, at
        self._reads_past = self._reads_past and at - before < _CAUGHT_UP
        if isinstance(event, AgentTool):
            self._see_call(event, at, before, tree)
        elif isinstance(event, AgentText) and not event.subagent:
            self._see_words(event.text, at)
        elif isinstance(event, AgentThought):
            self._acted, self._asked = True, None
        elif isinstance(event, AgentUsage):
            self._count(event)

    def find(self, at: float) -> str:
        """Return in words what the agent does over and over; empty while it does not."""
        if self._open or self._reads_past:
            return ""
        if self._asked is not None and at - self._asked[0] >= _UNANSWERED:
            return f"it waits for an answer: {_short(self._asked[1])}"
        for size in range(1, _LONGEST + 1):
            count = max(_LEAST, _ROUNDS * size)
            steps = self._circle[-count:]
            if len(steps) == count and len(set(steps)) <= size:
                named = dict.fromkeys(self._labels[step.what] for step in steps)
                return f"it repeats {', '.join(named)}, with the same result and nothing else changed"
        if self._turns >= _TURNS:
            return f"it used {self._turns} more turns, and nothing new came of them"
        return ""

    @property
    def moves(self) -> bool:
        """Whether the last that happened was new."""
        return not self._circle and self._turns < _TURNS and self._asked is None

    def _see_call(self, event: AgentTool, at: float, before: float, tree: str) -> None:
        self._asked, self._acted = None, True
        if event.state == "started":
            self._open[event.id] = _OpenCall(at, event.input)
            return
        what = self._digest(event)
        begun = self._open.pop(event.id, None)
        if not event.status and event.result is None:
            self._begin()  # nobody knows what came of it
        elif what not in self._known:
            self._known.add(what)
            self._labels[what] = _label(event, begun)
            self._begin()
        elif self._reads_past or _waits(event, begun, at - (begun.at if begun else before)):
            self._begin()
        else:
            self._circle.append(CircleStep(what, tree))
            self._turns = self._turns if tree in self._trees else 0
            self._trees.add(tree)

    def _see_words(self, text: str, at: float) -> None:
        self._acted = True
        question = find_question(text)
        self._asked = (at, question) if question and not self._open else None
        what = f"words {text}"
        if what in self._known and not self._open and not self._reads_past:
            self._circle.append(CircleStep(what))
        self._known.add(what)
        self._labels[what] = f"“{_short(text)}”"

    def _count(self, event: AgentUsage) -> None:
        tokens = event.count().tokens
        if tokens > self._tokens and self._acted and not self._open:
            self._turns += 1
            self._acted = False
        self._tokens = max(self._tokens, tokens)

    def _begin(self) -> None:
        """Count from here: there is news, or the agent waits for some."""
        self._circle.clear()
        self._turns = 0

    def _digest(self, event: AgentTool) -> str:
        begun = self._open.get(event.id)
        given = event.input or (begun.given if begun else None)
        result = _SECONDS.sub(r"\1 ", _VARYING.sub("", json.dumps(event.result, default=str)))
        said = json.dumps([event.name, given, event.status, result], sort_keys=True, default=str)
        return hashlib.sha256(said.encode("utf-8", "replace")).hexdigest()


def _waits(event: AgentTool, begun: _OpenCall | None, took: float) -> bool:
    """Return whether a call waits: it takes long, or as long as a number in it says.

    Of a call of which only the end is known, the model's own time is part of what it took.
    """
    if took >= (_LONG_CALL if begun else 2 * _LONG_CALL):
        return True
    given = json.dumps(event.input or (begun.given if begun else None), default=str)
    for text in _NUMBER.findall(given):
        for said in (float(text), float(text) / 1000):
            if 1 <= said <= took and (begun is None or took <= 1.1 * said + 1):
                return True
    return False


def _label(event: AgentTool, begun: _OpenCall | None) -> str:
    given = event.input or (begun.given if begun else None)
    first = next((one for one in given.values() if one), "") if isinstance(given, dict) else given
    said = first if isinstance(first, str) else json.dumps(first, default=str)
    return _short(f"{event.name} {said or ''}")


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _SHOWN else f"{words[: _SHOWN - 1]}…"


_PAUSE = 15.0
"""Seconds between two looks at an agent that prints nothing."""
_ADVICE = (
    "Segue has noticed that you turn in circles: {reason}. If you wait for something, wait in one command. "
    "Otherwise try something else, or end and say what is missing."
)


async def look_at(folder: Path) -> str:
    """Return what the work tree is now; nothing twice where that cannot be said."""
    with suppress(WorkspaceError):
        now = await (await Repository.open(folder)).snapshot()
        return f"{now.head} {now.dirty}"
    return str(time.monotonic())


class StuckWatch:
    """Watches one launch: says once that its agent turns in circles, and later has it ended."""

    def __init__(
        self,
        rule: StuckRule,
        task: str,
        patience: float,
        emit: Callable[[Event], Awaitable[object]],
        look: Callable[[], Awaitable[str]],
        tell: Callable[[str], Awaitable[bool]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`patience`: seconds until it is ended; 0: never. `tell` says something to the agent, if it can."""
        self._rule, self._task, self._patience = rule, task, patience
        self._emit, self._look, self._tell, self._clock = emit, look, tell, clock
        self._since: float | None = None
        self._told = False
        self._limit: asyncio.Timeout | None = None
        self.failure: Failure | None = None
        """Why the agent must be ended, once it must."""

    async def see(self, event: Event) -> None:
        """Take in an event."""
        tree = await self._look() if self._rule.is_known(event) else ""
        self._rule.see(event, self._clock(), tree)
        await self.judge()

    async def judge(self) -> None:
        """Say what there is to say now."""
        now = self._clock()
        reason = self._rule.find(now)
        if self._since is None and reason:
            self._since = now
            await self._notice(reason)
        elif self._since is not None and self._rule.moves:
            self._since = None
            await self._emit(AgentStuck(self._task))
        elif self._since is not None and reason and 0 < self._patience <= now - self._since:
            lasted = format_duration(now - self._since)
            said = f"It was ended because {reason}, {lasted} after that was noticed (limits.stuck)."
            self.failure = self.failure or Failure(FailureKind.STUCK, f"{said} What it did is kept.")
            if self._limit is not None:
                self._limit.reschedule(asyncio.get_running_loop().time())

    async def _notice(self, reason: str) -> None:
        if not self._told:
            self._told = await self._tell(_ADVICE.format(reason=reason))
        await self._emit(AgentStuck(self._task, reason, self._told, self._patience or None))

    @asynccontextmanager
    async def watching(self, limit: asyncio.Timeout, pause: float = _PAUSE) -> AsyncIterator[None]:
        """Look from time to time while the block lasts; the limit expires when the agent must be ended."""
        self._limit = limit

        async def look() -> None:
            while self.failure is None:
                await asyncio.sleep(pause)
                await self.judge()

        looking = asyncio.create_task(look())
        try:
            yield
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking
