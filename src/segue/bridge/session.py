"""One process carrying on one conversation: what guards it, and how it ends."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from segue.bridge.conversation import Conversation
from segue.bridge.desk import Desk, Spent
from segue.domain.errors import Interrupted, LeaseLost, NeedsHuman, SegueError, UsageError, WorkspaceError
from segue.domain.event import Event, EventType
from segue.domain.repository import canonical
from segue.domain.run import Run, RunSpec, RunState
from segue.flow.start import raise_problems
from segue.ports import Journal, Observer, Store
from segue.runtime.app import App
from segue.system.git.repository import Repository
from segue.system.interrupts import on_interrupt
from segue.system.lock import RepoLock
from segue.system.process.processes import Processes

KIND = "bridge"
"""The kind of source that tells conversations from other runs."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a session ended."""

    run: str
    state: RunState
    reply: str = ""
    reminder: float | None = None
    """When the first reminder that is still to be sent is due."""
    error: SegueError | None = None


def place(repo: str) -> str:
    """Where the agent of a conversation works: a folder of this machine, or a hosted repository."""
    folder = Path(repo).expanduser()
    if folder.is_dir():
        return str(folder.resolve())
    try:
        return canonical(repo)
    except ValueError:
        raise UsageError(
            f"{repo!r} is neither a folder nor the address of a hosted repository.",
            hint="--repo github.com/OWNER/NAME   or   --repo path/to/folder",
        ) from None


def begin(
    store: Store, app: App, agent: str, repo: str, message: str, *, anew: bool = False
) -> tuple[Run, bool]:
    """The conversation that this message begins, and whether it is new; an unfinished one goes on."""
    if not message.strip():
        raise UsageError("The message is empty.")
    digest = hashlib.sha256("\0".join((agent, repo, message)).encode("utf-8", "surrogatepass")).hexdigest()
    key = f"{KIND}:{digest[:24]}"
    last = store.runs(source_key=key, limit=1)
    fresh = anew or not last or last[0].state is RunState.DONE
    spec = RunSpec(
        KIND,
        "conversation",
        repo,
        agent,
        KIND,
        model=app.loaded.settings.model,
        config=str(app.config) if app.config else None,
        settings=app.loaded.overrides,
    )
    run = store.create(key, spec) if fresh else last[0]
    # Left under the same name each time: a process that was killed here leaves it once.
    store.send(run.id, "message", {"kind": "message", "text": message}, "first")
    return run, fresh


async def carry_on(
    app: App,
    store: Store,
    run: Run,
    observers: Sequence[Observer] = (),
    *,
    wait_reminders: bool = False,
    served: bool = False,
) -> Ended:
    """Claim the conversation, go on with it, and say how it ended.

    `served`: somebody else listens for Ctrl-C, and goes on with the conversation when it starts again.
    """
    async with _workspace(run) as lock:
        journal = await store.open(run.id, observers)
        try:
            return await _watched(app, journal, lock, wait_reminders, served)
        finally:
            await store.close(journal)


@asynccontextmanager
async def _workspace(run: Run) -> AsyncIterator[RepoLock | None]:
    """The repository is taken while the agent works in it; a hosted one, or a plain folder, needs no lock."""
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


async def _watched(
    app: App, journal: Journal, lock: RepoLock | None, wait_reminders: bool, served: bool
) -> Ended:
    """Go on, and turn whatever ends it into a state of the run."""
    run, reply, reminder = journal.run.id, "", None
    error: SegueError | None = None
    held = (lock.fd,) if lock else ()
    try:
        async with Processes(app.run_folder(run), held, lock.ensure if lock else None) as processes:
            conversation = _conversation(app, journal, processes, wait_reminders)
            await _announce(journal)
            reply = await _until_stopped(journal, conversation, served)
            reminder = conversation.next_reminder()
    except LeaseLost as lost:
        return Ended(run, RunState.RUNNING, error=lost)
    except SegueError as caught:
        error = caught
    except Exception as caught:
        await _close(journal, RunState.FAILED, f"{type(caught).__name__}: {caught}")
        raise
    state = _state_after(error, reminder)
    await _close(journal, state, error.message if error else "", reminder)
    return Ended(run, state, reply, reminder, error)


def _conversation(app: App, journal: Journal, processes: Processes, wait_reminders: bool) -> Conversation:
    spec = journal.run.spec
    desk = Desk(app, journal, processes, app.redactor(), Spent.of(journal.steps()))
    hosted = None if Path(spec.repo).is_absolute() else spec.repo
    agent = desk.agent(spec.agent, hosted)
    raise_problems(agent.check())
    if hosted and not agent.can.cloud:
        raise UsageError(
            f"{spec.agent} works on this machine, but {spec.repo} is a hosted repository.",
            hint="Name a folder with --repo, or a cloud agent with --agent",
        )
    if not hosted and not agent.can.cloud:
        refuse_own_limits(app, Path(spec.repo))
    workspace = desk.folder() if hosted else Path(spec.repo)
    return Conversation(desk, agent, workspace, wait_reminders)


def refuse_own_limits(app: App, folder: Path) -> None:
    """The settings that bound an agent must not lie where the agent can change them."""
    for setting in ("allow_repos", "allow_agents", "launches", "relay_url", "extensions"):
        origin = Path(app.loaded.origin(f"bridge.{setting}"))
        if origin.is_absolute() and origin.resolve().is_relative_to(folder.resolve()):
            raise UsageError(
                f"bridge.{setting} comes from {origin}, which lies in the agent's own folder: "
                "it could widen its own limits.",
                hint="Keep these settings outside of it and name the file with --config",
            )


async def _announce(journal: Journal) -> None:
    spec = journal.run.spec
    await journal.set_state(RunState.RUNNING)
    kind = EventType.RUN_RESUMED if journal.steps() else EventType.RUN_STARTED
    facts = {"source": spec.source, "repo": spec.repo, "agent": spec.agent, "flow": spec.flow}
    await journal.emit(Event(kind, {**facts, "model": spec.model, "tasks": []}))


async def _until_stopped(journal: Journal, conversation: Conversation, served: bool) -> str:
    """Go on until the end, Ctrl-C or `segue stop`; leave nothing running."""
    while await journal.wait("stop", timeout=0):
        pass  # a request to stop that came after the last session had ended
    work = asyncio.create_task(conversation.carry_on())
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
            f"Conversation {run} was stopped; its agents were ended.",
            kept="Everything said and done so far is saved.",
            hint=f"Go on with: segue bridge resume {run}",
        ) from None
    finally:
        stop.cancel()


def _state_after(error: SegueError | None, reminder: float | None) -> RunState:
    if error is None:
        return RunState.DONE if reminder is None else RunState.PARKED
    if isinstance(error, NeedsHuman):
        return RunState.NEEDS_HUMAN
    return RunState.STOPPED if isinstance(error, Interrupted) else RunState.FAILED


async def _close(journal: Journal, state: RunState, note: str, wake: float | None = None) -> None:
    await journal.emit(Event(EventType.RUN_ENDED, {"state": state, "note": note}))
    await journal.set_state(state, note, wake)
