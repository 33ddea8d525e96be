"""What is said to an agent while it works: it gets it in its session, at its next turn, or its next launch.

People say it by a signal, which whoever drives the run takes once; a killed run takes it again. The event
`task.commented` is stored before the agent is told, and its number names the words from then on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from segue.domain.errors import StoreFull
from segue.domain.events import SEGUE, Delivery, Event, TaskCommented, WordsDelivered
from segue.domain.results import Nothing, StepFacts, StepResult
from segue.domain.run import StepState
from segue.flow.agents import Addressee, Launcher
from segue.ports import Agent
from segue.prompts.task import words_prompt
from segue.store.database import EVERY_SECOND, Disconnected


async def say(launcher: Launcher, task: str, text: str) -> bool:
    """Tell the agent at work on a task something in Segue's own name, once; False where it cannot be told."""
    addressee = launcher.addressees.get(task)
    if addressee is None or addressee.how != "session":
        return False
    said = await launcher.journal.emit(TaskCommented(task, text, SEGUE, how="session"))
    await launcher.journal.store()
    addressee.tell({said.seq: text})
    return True


@asynccontextmanager
async def listening(launcher: Launcher, task: str, agent: Agent, token: str) -> AsyncIterator[None]:
    """Take what people say about a task while the block runs its agent, and tell it where it can be told."""
    addressee = launcher.addressees[task] = Addressee(agent, token)
    _tell_said(addressee, launcher.view.unheard(task))
    listens = asyncio.create_task(_listen(launcher, task, addressee))
    try:
        yield
    finally:
        del launcher.addressees[task]
        listens.cancel()
        await asyncio.wait({listens})


def once(
    launcher: Launcher, emit: Callable[[Event], Awaitable[object]]
) -> Callable[[Event], Awaitable[object]]:
    """Return what emits all but deliveries that are known: an adopted agent reports them again."""

    async def emit_new(event: Event) -> None:
        if not (isinstance(event, WordsDelivered) and launcher.view.heard.issuperset(event.words)):
            await emit(event)

    return emit_new


def _tell_said(addressee: Addressee, said: Mapping[int, str]) -> None:
    addressee.tell({number: words_prompt((text,)).text for number, text in said.items()})


async def _listen(launcher: Launcher, task: str, addressee: Addressee) -> None:
    while True:
        with suppress(Disconnected, StoreFull):  # whoever works notices it, and decides
            await _take(launcher, task, await launcher.journal.wait(said_about(task)) or {}, addressee.how)
            await launcher.journal.store()
            _tell_said(addressee, launcher.view.unheard(task))
            continue
        await asyncio.sleep(EVERY_SECOND)


SAID = "said/"
"""What the topics begin with of what people say about tasks."""


def said_about(task: str) -> str:
    """Return the topic of what people say about a task."""
    return f"{SAID}{task}"


async def take_said(
    launcher: Launcher, task: str, wording: Callable[[str], str] = str, how: Delivery = "launch"
) -> None:
    """Take what was said about a task while nobody listened, before its next launch or once it is done."""
    journal, folder = launcher.journal, f"said/{task}/"
    known = journal.steps(folder)
    is_cut_off = bool(known) and known[-1].state is StepState.STARTED
    if not (is_cut_off or said_about(task) in await journal.topics()):
        return

    async def work(_token: str) -> StepResult[Nothing]:
        while (said := await journal.wait(said_about(task), timeout=0)) is not None:
            await _take(launcher, task, {**said, "comment": wording(str(said["comment"]))}, how)
        return StepResult(True, Nothing())

    key = known[-1].key if is_cut_off else f"{folder}{len(known) + 1}"
    await journal.step(key, Nothing, work, facts=StepFacts(task, "words"))


async def _take(launcher: Launcher, task: str, said: Mapping[str, Any], how: Delivery) -> None:
    """Write down what was said, unless an interrupted step has done so."""
    if said and said["id"] not in launcher.view.said:
        words = TaskCommented(task, str(said["comment"]), str(said["by"]), str(said["id"]), how)
        await launcher.journal.emit(words)
