"""What is said to an agent while it works: it gets it in its session, at its next turn, or its next launch.

People say it by a signal, which whoever drives the run takes once; a killed run takes it again. The event
`task.commented` is stored before the agent is told, and its number names the words from then on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from msgspec import Struct

from segue.domain.errors import StoreFull
from segue.domain.events import SEGUE, Delivery, TaskCommented
from segue.domain.results import Nothing, StepFacts, StepResult
from segue.domain.run import StepState
from segue.flow.agents import Launcher
from segue.ports import Agent, HearingAgent
from segue.store.database import EVERY_SECOND, Disconnected


class Listener(Struct, frozen=True):
    """A launch that is told what is said about its task."""

    agent: Agent
    token: str

    @property
    def how(self) -> Delivery:
        """How words reach its agent."""
        if isinstance(self.agent, HearingAgent):
            return "session"
        return "turn" if self.agent.can.follow_up else "launch"

    def tell(self, words: Mapping[int, str]) -> None:
        """Tell the agent, where it can be told now; what it was told before is not told again."""
        if isinstance(self.agent, HearingAgent):
            for number, text in words.items():
                self.agent.tell(self.token, number, text)


async def say(launcher: Launcher, task: str, text: str) -> bool:
    """Tell the agent at work on a task something in Segue's own name, once; False where it cannot be told."""
    listener = launcher.listeners.get(task)
    if listener is None or listener.how != "session":
        return False
    said = await launcher.journal.emit(TaskCommented(task, text, SEGUE, how="session"))
    await launcher.journal.store()
    listener.tell({said.seq: text})
    return True


@asynccontextmanager
async def listening(launcher: Launcher, task: str, agent: Agent, token: str) -> AsyncIterator[None]:
    """Take what people say about a task while the block runs its agent, and tell it where it can be told."""
    listener = launcher.listeners[task] = Listener(agent, token)
    listener.tell(launcher.view.unheard(task))
    listens = asyncio.create_task(_listen(launcher, task, listener))
    try:
        yield
    finally:
        del launcher.listeners[task]
        listens.cancel()
        await asyncio.wait({listens})


async def _listen(launcher: Launcher, task: str, listener: Listener) -> None:
    while True:
        with suppress(Disconnected, StoreFull):  # whoever works notices it, and decides
            await _take(launcher, task, await launcher.journal.wait(said_about(task)) or {}, listener.how)
            await launcher.journal.store()
            listener.tell(launcher.view.unheard(task))
            continue
        await asyncio.sleep(EVERY_SECOND)


def said_about(task: str) -> str:
    """Return the topic of what people say about a task."""
    return f"said/{task}"


async def take_said(launcher: Launcher, task: str, wording: Callable[[str], str] = str) -> None:
    """Take what was said about a task while nobody listened, before its next launch."""
    journal, folder = launcher.journal, f"said/{task}/"
    known = journal.steps(folder)
    is_cut_off = bool(known) and known[-1].state is StepState.STARTED
    if not (is_cut_off or await journal.has_signal(said_about(task))):
        return

    async def work(_token: str) -> StepResult[Nothing]:
        while (said := await journal.wait(said_about(task), timeout=0)) is not None:
            await _take(launcher, task, {**said, "comment": wording(str(said["comment"]))}, "launch")
        return StepResult(True, Nothing())

    key = known[-1].key if is_cut_off else f"{folder}{len(known) + 1}"
    await journal.step(key, Nothing, work, facts=StepFacts(task, "words"))


async def _take(launcher: Launcher, task: str, said: Mapping[str, Any], how: Delivery) -> None:
    """Write down what was said, unless an interrupted step has done so."""
    if said and said["id"] not in launcher.view.said:
        words = TaskCommented(task, str(said["comment"]), str(said["by"]), str(said["id"]), how)
        await launcher.journal.emit(words)
