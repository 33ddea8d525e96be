"""One process driving one run: what is checked before it, what guards it, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from segue.app import App, make_agent
from segue.domain.errors import Interrupted, LeaseLost, Locked, NeedsHuman, SegueError, TimeLimit
from segue.domain.event import Event, EventType
from segue.domain.run import Run, RunSpec, RunState, StepState
from segue.flow.drive import drive
from segue.flow.kit import Kit, Policy, Spent
from segue.flow.start import check_agent_ready, check_caps, check_clean, pending, select
from segue.ports import Journal, Observer, Store
from segue.sources import planstate
from segue.sources.planfile import PlanFile
from segue.system import identity
from segue.system.git import Repository
from segue.system.lock import RepoLock
from segue.system.process import Processes, end_orphans
from segue.system.redact import Redactor

_STOP_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that may begin: everything a user could have got wrong has been checked."""

    app: App
    run: Run
    spec: RunSpec
    repo: Repository
    source: PlanFile
    lock: RepoLock
    fresh: bool
    warning: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a session ended."""

    run: str
    state: RunState
    done: int
    error: SegueError | None = None

    @property
    def exit_code(self) -> int:
        """The exit code of the process."""
        return self.error.exit_code if self.error else 0


@asynccontextmanager
async def prepared(
    app: App, source: Path, only: Sequence[str] = (), start: str | None = None
) -> AsyncIterator[Prepared | None]:
    """Check everything, take the repository, find or create the run; None when there is nothing to do."""
    app.planfile(source, app.repo).look()
    repo = await Repository.open(app.repo)
    plan = app.planfile(source, repo.root)
    listing = plan.tasks()
    chosen = select(listing, only, start)
    if not pending(listing, chosen):
        yield None
        return
    spec = _spec(app, plan, repo, chosen, {task.key: task.title for task in pending(listing, chosen)})
    _check_agent(app, spec.agent)
    with app.store() as store:
        run = _unfinished(store, plan.key)
        with _locked(repo, run.id if run else "") as lock:
            fresh = run is None
            if run is None:
                check_clean(await repo.snapshot(), app.loaded.settings.allow_dirty)
                run = store.create(plan.key, spec)
                lock.sign(run.id)
            yield Prepared(app, run, spec, repo, plan, lock, fresh)


@asynccontextmanager
async def reopened(app: App, run: Run) -> AsyncIterator[Prepared]:
    """Prepare a run that exists, with the settings it was started with."""
    repo = await Repository.open(Path(run.spec.repo))
    _check_agent(app, run.spec.agent)
    with _locked(repo, run.id) as lock:
        plan = app.planfile(Path(run.spec.source), repo.root)
        warning = _mended(plan)
        yield Prepared(app, run, run.spec, repo, plan, lock, fresh=False, warning=warning)


def _mended(plan: PlanFile) -> str:
    """A corrupt state file is put aside: the plan then starts from its first task, and the user is told."""
    try:
        plan.state()
    except planstate.CorruptState as error:
        aside = planstate.set_aside(plan.state_path)
        return f"{error.message} It was kept as {aside}; the plan starts from its first task."
    return ""


@contextlib.contextmanager
def _locked(repo: Repository, run: str) -> Iterator[RepoLock]:
    lock = RepoLock.take(repo.git_dir, run)
    try:
        yield lock
    finally:
        lock.release()


def _check_agent(app: App, name: str) -> None:
    agent = make_agent(name, app.loaded, Processes(app.state_dir), Redactor([]))
    check_agent_ready(agent)
    check_caps(app.loaded.settings.limits.budget(), agent.can, name)


def _spec(
    app: App, plan: PlanFile, repo: Repository, chosen: tuple[str, ...], titles: dict[str, str]
) -> RunSpec:
    settings = app.loaded.settings
    return RunSpec(
        source_kind=plan.kind,
        source=str(plan.path),
        repo=str(repo.root),
        agent=app.agent_name(),
        flow=app.flow_name(),
        model=settings.model,
        tasks=chosen,
        titles=titles,
        config=str(app.config) if app.config else None,
        settings=app.loaded.overrides,
    )


def _unfinished(store: Store, key: str) -> Run | None:
    runs = store.runs(source_key=key, limit=1)
    return runs[0] if runs and runs[0].state is not RunState.DONE else None


async def carry_out(ready: Prepared, observers: Sequence[Observer] = ()) -> Ended:
    """Claim the run, drive it to its end and say how it ended."""
    with ready.app.store() as store:
        journal = await store.open(ready.run.id, observers)
        try:
            return await _watched(ready, store, journal)
        finally:
            await store.close(journal)


async def _watched(ready: Prepared, store: Store, journal: Journal) -> Ended:
    """Drive, and turn whatever ends it into a state of the run."""
    before = _done(journal)
    error: SegueError | None = None
    try:
        await _until_stopped(ready, store, journal)
    except LeaseLost as lost:
        return Ended(ready.run.id, RunState.RUNNING, 0, lost)
    except SegueError as caught:
        error = caught
    except Exception as caught:
        await _close(journal, RunState.FAILED, f"{type(caught).__name__}: {caught}")
        raise
    state = _state_after(error)
    await _close(journal, state, error.message if error else "")
    return Ended(ready.run.id, state, _done(journal) - before, error)


def _done(journal: Journal) -> int:
    return sum(step.phase == "end" and step.state is StepState.DONE for step in journal.steps())


def _state_after(error: SegueError | None) -> RunState:
    if error is None:
        return RunState.DONE
    if isinstance(error, NeedsHuman):
        return RunState.NEEDS_HUMAN
    return RunState.STOPPED if isinstance(error, Interrupted | TimeLimit) else RunState.FAILED


async def _close(journal: Journal, state: RunState, note: str) -> None:
    await journal.emit(Event(EventType.RUN_ENDED, {"state": state, "note": note}))
    await journal.set_state(state, note)


async def _until_stopped(ready: Prepared, store: Store, journal: Journal) -> None:
    """Drive until the end, Ctrl-C, `segue stop`, or the time limit of the run; leave nothing running."""
    while await journal.wait("stop", timeout=0):
        pass  # a request to stop that came after the last session had ended
    work = asyncio.create_task(_drive(ready, store, journal))
    stop = asyncio.create_task(journal.wait("stop"))
    limit = ready.app.loaded.settings.limits.run_timeout
    with _signals(work):
        finished, _ = await asyncio.wait({work, stop}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if work not in finished:
            work.cancel()
    try:
        await work
    except asyncio.CancelledError:
        run = ready.run.id
        kept, hint = "Everything recorded so far is saved.", f"Go on with: segue resume {run}"
        if not finished:
            raise TimeLimit(f"The run reached its time limit of {limit:g} s.", kept=kept, hint=hint) from None
        raise Interrupted(f"Run {run} was stopped; its agent was ended.", kept=kept, hint=hint) from None


@contextlib.contextmanager
def _signals(work: asyncio.Task[None]) -> Iterator[None]:
    """Ctrl-C and termination end the work in an orderly way."""
    loop = asyncio.get_running_loop()
    caught = [signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    with contextlib.suppress(NotImplementedError):
        for number in caught:
            loop.add_signal_handler(number, work.cancel)
    try:
        yield
    finally:
        with contextlib.suppress(NotImplementedError):
            for number in caught:
                loop.remove_signal_handler(number)


async def _drive(ready: Prepared, store: Store, journal: Journal) -> None:
    app, settings = ready.app, ready.app.loaded.settings
    await _announce(ready, store, journal)
    redactor = app.redactor()
    lock = ready.lock
    async with Processes(app.run_folder(ready.run.id), (lock.fd,), lock.ensure) as processes:
        kit = Kit(
            journal=journal,
            source=ready.source,
            agent=make_agent(ready.spec.agent, app.loaded, processes, redactor),
            workspace=ready.repo,
            policy=Policy(
                flow=ready.spec.flow,
                attempts=settings.limits.attempts,
                commit=settings.commit,
                allow_no_change=settings.allow_no_change,
                go_on=settings.continue_with_remaining_tasks,
                max_failures=settings.max_consecutive_task_failures,
                model=ready.spec.model,
                limits=settings.limits.launch(),
                budget=settings.limits.budget(),
            ),
            spent=Spent.of(store.steps(ready.run.id)),
            redact=redactor.text,
        )
        await drive(kit, ready.spec.tasks)


async def _announce(ready: Prepared, store: Store, journal: Journal) -> None:
    spec = ready.spec
    await journal.set_state(RunState.RUNNING)
    if spec != ready.run.spec:
        await journal.respec(spec)
    kind = EventType.RUN_STARTED if ready.fresh else EventType.RUN_RESUMED
    facts = {"source": spec.source, "repo": spec.repo, "agent": spec.agent, "flow": spec.flow}
    await journal.emit(Event(kind, {**facts, "model": spec.model, "tasks": list(spec.tasks)}))
    imported = _imported(ready, store, journal)
    if imported:
        await journal.emit(Event(EventType.STATE_IMPORTED, {"text": imported}))
    for notice in ready.source.look().notices:
        await journal.emit(Event(EventType.NOTICE, {"line": notice.line, "text": notice.text}))


def _imported(ready: Prepared, store: Store, journal: Journal) -> str:
    """Say so when the state file does not continue what this database knows."""
    state = ready.source.state()
    if state is None:
        done = [step.task for step in journal.steps() if step.phase == "end" and step.state is StepState.DONE]
        return "The state file is missing: the plan starts from its first task." if done else ""
    if not state.edited and (state.run is None or store.run(state.run) is not None):
        return ""
    tasks = ", ".join(sorted(state.completed)) or "none"
    return (
        f"{ready.source.state_path} was edited or comes from elsewhere. Tasks done according to it: {tasks}."
    )


async def stop_run(app: App, run: Run) -> Run:
    """End a run from another process: ask its owner; without one, end what it left behind."""
    with app.store() as store:
        if _driven(run):
            store.send(run.id, "stop", {})
            deadline = asyncio.get_running_loop().time() + _STOP_TIMEOUT
            while _driven(now := store.run(run.id) or run):
                if asyncio.get_running_loop().time() > deadline:
                    raise Locked(
                        f"Run {run.id} was asked to stop but is still working.",
                        hint=f"End its process: kill {identity.pid_of(str(now.owner))}",
                    )
                await asyncio.sleep(0.05)
        else:
            await end_orphans(app.run_folder(run.id))
            journal = await store.open(run.id)
            await _close(journal, RunState.STOPPED, "stopped by `segue stop`")
            await store.close(journal)
        return store.run(run.id) or run


def _driven(run: Run) -> bool:
    """Whether a process may be driving the run."""
    return run.owner is not None and not identity.is_dead(run.owner.split("#")[0])
