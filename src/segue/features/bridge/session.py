"""One process runs one conversation: locks its repository, watches for a stop, records how it ended."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from segue.domain.errors import Interrupted, LeaseLost, SegueError, UsageError, WorkspaceError
from segue.domain.events import RunResumed, RunStarted
from segue.domain.run import Run, RunState
from segue.features.bridge.context import ConversationContext, conversation_budget
from segue.features.bridge.conversation import Conversation
from segue.features.bridge.options import bridge_settings
from segue.flow.agents import Launcher
from segue.ports import Observer
from segue.runtime.app import App
from segue.runtime.ending import close_run, last_seen, state_after
from segue.runtime.wiring import raise_problems
from segue.system.git.repository import Repository
from segue.system.lock import RepoLock
from segue.system.process.group import on_interrupt
from segue.system.process.processes import Processes
from segue.view.run import FOLDED, RunView

if TYPE_CHECKING:
    from segue.store.journal import Journal
    from segue.store.store import Store


class ConversationResult(Struct, frozen=True):
    """How a session of a conversation ended."""

    run: str
    state: RunState
    reply: str = ""
    reminder: float | None = None
    """When the first unsent reminder is due."""
    error: SegueError | None = None


async def run_conversation(
    app: App,
    store: Store,
    run: Run,
    observers: Sequence[Observer] = (),
    *,
    wait_reminders: bool = False,
    served: bool = False,
) -> ConversationResult:
    """Claim the conversation, run it, and return how it ended.

    `served`: the server handles Ctrl-C, and continues the conversation when it starts again.
    """
    async with _lock_repository(run) as lock:
        view = RunView.of({}, store.events(run.id, kinds=FOLDED))
        seen = last_seen(store, run.id)
        journal = await store.open(run.id, [view.apply, *observers])
        settings = app.loaded.settings
        budget = conversation_budget(bridge_settings(settings))
        launcher = Launcher(journal, view, settings.limits.launch(), budget)
        try:
            return await _run(app, launcher, lock, wait_reminders, served, seen)
        finally:
            await store.close(journal)


@asynccontextmanager
async def _lock_repository(run: Run) -> AsyncIterator[RepoLock | None]:
    """Lock the repository while the agent works in it; hosted ones and plain folders need no lock."""
    try:
        repo = await Repository.open(Path(run.spec.repo)) if Path(run.spec.repo).is_absolute() else None
    except WorkspaceError:
        repo = None
    lock = RepoLock.take(repo.git_dir, run.id) if repo else None
    try:
        yield lock
    finally:
        if lock:
            lock.release()


async def _run(
    app: App,
    launcher: Launcher,
    lock: RepoLock | None,
    wait_reminders: bool,
    served: bool,
    seen: int | None,
) -> ConversationResult:
    """Run the conversation and record whatever ends it as the state of the run."""
    journal = launcher.journal
    run, reply, reminder = journal.run.id, "", None
    error: SegueError | None = None
    held = (lock.fd,) if lock else ()
    processes = Processes().bind(app.run_folder(run), held, lock.ensure if lock else None)
    try:
        async with processes:
            conversation = _make_conversation(app, launcher, processes, wait_reminders)
            await _announce(journal, seen)
            reply = await _run_until_stopped(journal, conversation, served)
            reminder = conversation.next_reminder()
    except LeaseLost as lost:
        return ConversationResult(run, RunState.RUNNING, error=lost)
    except SegueError as caught:
        error = caught
    except Exception as caught:
        await close_run(journal, RunState.FAILED, f"{type(caught).__name__}: {caught}")
        raise
    state = RunState.PARKED if error is None and reminder is not None else state_after(error)
    await close_run(journal, state, error.message if error else "", reminder)
    return ConversationResult(run, state, reply, reminder, error)


def _make_conversation(
    app: App, launcher: Launcher, processes: Processes, wait_reminders: bool
) -> Conversation:
    spec = launcher.journal.run.spec
    context = ConversationContext(app, launcher.journal, launcher, processes)
    hosted = None if Path(spec.repo).is_absolute() else spec.repo
    agent = context.make_agent(spec.agent, hosted)
    raise_problems(agent.check())
    if hosted and not agent.can.cloud:
        raise UsageError(
            f"{spec.agent} works on this machine, but {spec.repo} is a hosted repository.",
            hint="Name a folder with --repo, or a cloud agent with --agent",
        )
    if not hosted and not agent.can.cloud:
        _refuse_own_limits(app, Path(spec.repo))
    return Conversation(context, agent, context.folder() if hosted else Path(spec.repo), wait_reminders)


def _refuse_own_limits(app: App, folder: Path) -> None:
    """Refuse settings of the bridge from a file in the agent's own folder: the agent could change them."""
    for setting, origin in app.loaded.origins.items():
        if not setting.startswith("bridge.") or not Path(origin).is_absolute():
            continue
        # A link in the folder can be replaced; a link into it leads to what can be changed.
        places = (Path(os.path.normpath(origin)), Path(origin).resolve())
        if any(place.is_relative_to(path) for place in places for path in (folder, folder.resolve())):
            raise UsageError(
                f"{setting} comes from {origin}, a file in the agent's own folder: "
                "the agent could widen its own limits.",
                hint="Keep these settings elsewhere and name the file with --config",
            )


async def _announce(journal: Journal, seen: int | None) -> None:
    spec = journal.run.spec
    await journal.set_state(RunState.RUNNING)
    facts = (spec.source, spec.repo, spec.agent, spec.flow, spec.model)
    resumed = RunResumed(*facts, last_seen=seen) if journal.steps() else None
    await journal.emit(resumed or RunStarted(*facts))


async def _run_until_stopped(journal: Journal, conversation: Conversation, served: bool) -> str:
    """Run until the end, Ctrl-C or `segue stop`; leave nothing running."""
    while await journal.wait("stop", timeout=0):
        pass  # a request that arrived after the previous session had ended
    work = asyncio.create_task(conversation.run())
    stop = asyncio.create_task(journal.wait("stop"))
    try:
        with nullcontext() if served else on_interrupt(work.cancel):
            finished, _ = await asyncio.wait({work, stop}, return_when=asyncio.FIRST_COMPLETED)
            if work not in finished:
                work.cancel()
            return await work
    except asyncio.CancelledError:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        if served and not stop.done():
            raise
        run = journal.run.id
        raise Interrupted(
            f"Conversation {run} was stopped, and its agents with it.",
            kept="Everything said and done so far is saved.",
            hint=f"Continue with: segue bridge resume {run}",
        ) from None
    finally:
        stop.cancel()
