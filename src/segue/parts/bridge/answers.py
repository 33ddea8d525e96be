"""Decides about tasks as people answer notifications: accept, skip or retry, once, and the run continues.

What was decided is read from the run itself. So a press that a kill interrupted is finished by the next one,
and one that comes after a decision made elsewhere changes nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import Struct

from segue.domain.errors import SegueError
from segue.domain.events import TaskEnded, TaskMarked, TaskStarted
from segue.domain.notification import AnswerAction
from segue.domain.plain import plain
from segue.domain.run import Run
from segue.notify.answers import AnswerSigner, ExpiredToken, TaskAnswer, WrongToken
from segue.runtime.app import App
from segue.runtime.overrides import decide
from segue.runtime.stored import load_run_app
from segue.view.load import ACTIVE, load_view, state_of

if TYPE_CHECKING:
    from segue.store.store import Store


Resume = Callable[[App, Run], Awaitable[None]]
"""Continues a run, wherever it is driven."""

_PATIENCE = 20.0
"""Seconds to wait for a session that is about to end: its notification may be read before it has."""
_PAUSE = 0.2
_MARK = "by notification"
_WORDS: dict[AnswerAction, str] = {"accept": "accepted", "skip": "skipped", "retry": "tried again"}


class AnswerReply(Struct, frozen=True):
    """What a person reads after they have pressed a button."""

    status: int
    text: str

    @property
    def is_final(self) -> bool:
        """Whether pressing again makes no difference."""
        return self.status in (200, 404, 409, 410)


class AnswerDesk:
    """Takes tokens and does what they stand for, one at a time for each run."""

    def __init__(self, app: App, store: Store, signer: AnswerSigner | None, resume: Resume) -> None:
        self._app = app
        self._store = store
        self._signer = signer
        self._resume = resume
        self._locks: dict[str, asyncio.Lock] = {}

    def read(self, token: str) -> TaskAnswer | AnswerReply:
        """Return the answer a token stands for, or why it is refused."""
        if self._signer is None:
            return AnswerReply(503, "Notifications have no answers here: notify.answers.url is not set.")
        try:
            return self._signer.read(token, time.time())
        except WrongToken:
            return AnswerReply(401, "This token is not one of ours.")
        except ExpiredToken as error:
            return AnswerReply(410, f"This button is too old. Decide with: {_command(error.answer)}")

    async def answer(self, answer: TaskAnswer, who: str) -> AnswerReply:
        """Do what the answer says, unless something was decided already; `who` is named with the decision."""
        async with self._locks.setdefault(answer.run, asyncio.Lock()):
            return await self._answer(answer, f"{_MARK} ({plain(who, 100)})")

    async def _answer(self, answer: TaskAnswer, via: str) -> AnswerReply:
        run = await self._wait_for_end(answer.run)
        if run is None:
            return AnswerReply(404, f"There is no run {answer.run} in the database of this bridge.")
        decided = await asyncio.to_thread(self._find_decision, run, answer)
        if decided:
            return AnswerReply(409, decided)
        if state_of(run) in ACTIVE:
            text = f"Run {run.id} still works on other tasks. Nothing was decided; press again when it waits."
            return AnswerReply(503, text)
        try:
            await self._decide(run, answer, via)
        except SegueError as error:
            return AnswerReply(503, f"{_say(error)} Nothing was decided; press again.")
        try:
            text = await self._continue(answer)
        except SegueError as error:
            return AnswerReply(503, f"{_done(answer)} Run {run.id} does not continue yet: {_say(error)}")
        await asyncio.to_thread(self._store.send, run.id, "answer", {"action": answer.action}, _name(answer))
        return AnswerReply(200, text)

    async def _decide(self, run: Run, answer: TaskAnswer, via: str) -> None:
        """Write the decision down, as `segue task` does; to try again needs none."""
        if answer.action == "retry" or await asyncio.to_thread(self._is_marked, answer):
            return
        skip = answer.action == "skip"
        reason = f"skipped: {via}" if skip else f"accepted {via}"
        await decide(load_run_app(self._app, run), run, answer.task, reason, skip=skip, via=via)

    async def _continue(self, answer: TaskAnswer) -> str:
        """Resume the run, unless another task waits for a person: resuming would try that one again."""
        run = await asyncio.to_thread(self._store.run, answer.run)
        assert run is not None, "it was there a moment ago"
        view = await asyncio.to_thread(load_view, self._store, run)
        waiting = [key for key, task in view.tasks.items() if task.state == "needs_human"]
        others = [key for key in waiting if key != answer.task]
        if others and answer.action != "retry":
            return f"{_done(answer)} Run {run.id} continues when task {', '.join(others)} is decided, too."
        await self._resume(self._app, run)
        return f"{_done(answer)} Run {run.id} continues."

    async def _wait_for_end(self, run_id: str) -> Run | None:
        """Return the run, after its session has ended if it does so soon."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            run = await asyncio.to_thread(self._store.run, run_id)
            if run is None or run.id != run_id:
                return None
            if state_of(run) not in ACTIVE or time.monotonic() > deadline:
                return run
            await asyncio.sleep(_PAUSE)

    def _find_decision(self, run: Run, answer: TaskAnswer) -> str:
        """Return what was decided about the question since it was asked; empty: nothing."""
        task = answer.task
        known = self._store.query(_ANSWERED, [run.id, _name(answer)])
        if known:
            return f"Task {task} is already decided."
        found = self._since(answer)
        if not found or not isinstance(found[0], TaskEnded):
            return f"Run {run.id} did not ask about task {task} here."
        for event in found[1:]:
            if isinstance(event, TaskMarked) and event.by is not None and not _is_ours(event, answer):
                return f"Task {task} is already {'skipped' if event.skipped else 'accepted'} ({event.by})."
            if not isinstance(event, TaskMarked):
                return f"Task {task} is already decided: the run has continued."
        return ""

    def _is_marked(self, answer: TaskAnswer) -> bool:
        """Return whether this answer was written down and interrupted then."""
        return any(isinstance(event, TaskMarked) and _is_ours(event, answer) for event in self._since(answer))

    def _since(self, answer: TaskAnswer) -> list[TaskEnded | TaskMarked | TaskStarted]:
        """Return what happened to the task since it needed a person, with that."""
        kinds = (TaskEnded, TaskMarked, TaskStarted)
        found = [one.event for one in self._store.events(answer.run, answer.seq - 1, kinds=kinds)]
        return [event for event in found if isinstance(event, kinds) and event.task == answer.task]


_ANSWERED = "SELECT 1 AS one FROM orchestrator_signals WHERE run_id = ? AND id = ?"


def _is_ours(event: TaskMarked, answer: TaskAnswer) -> bool:
    return f", {_MARK} (" in (event.by or "") and event.skipped == (answer.action == "skip")


def _name(answer: TaskAnswer) -> str:
    return f"answered/{answer.task}/{answer.seq}"


def _done(answer: TaskAnswer) -> str:
    return f"Task {answer.task} is {_WORDS[answer.action]}."


def _say(error: SegueError) -> str:
    return " ".join(filter(None, (error.message, error.hint)))


def _command(answer: TaskAnswer) -> str:
    if answer.action == "retry":
        return f"segue resume {answer.run}"
    more = ' --reason "…"' if answer.action == "skip" else ""
    return f"segue task {answer.action} {answer.task} --run {answer.run}{more}"
