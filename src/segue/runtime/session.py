"""One process driving one run: what guards it, and how it ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from segue.config.settings import FinalSettings
from segue.domain.errors import Interrupted, JudgeFailed, LeaseLost, Locked, NeedsHuman, SegueError, TimeLimit
from segue.domain.event import Event, EventType
from segue.domain.role import Role
from segue.domain.run import Run, RunState, StepState
from segue.flow.context import Kit, Policy, RunCheck, Spent
from segue.flow.final import FinalCommand, FinalReport, finish
from segue.flow.scheduler import drive
from segue.ports import Journal, Observer, ReviewSubject, Store
from segue.runtime.parts import make_building, make_cast, make_reviewing, make_verifying, make_workspace
from segue.runtime.plan import Prepared
from segue.runtime.wiring import App
from segue.sources.plan.source import PlanFile
from segue.sources.prompt import PromptSource
from segue.system import identity
from segue.system.git.worktree import WorktreeResult
from segue.system.interrupts import on_interrupt
from segue.system.process.processes import Processes, capture, child_environment, end_orphans

_STOP_TIMEOUT = 60.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a session ended."""

    run: str
    state: RunState
    done: int
    error: SegueError | None = None
    final: tuple[FinalReport, ...] = ()
    farewell: WorktreeResult | None = None
    """What became of the run's own work tree, when it is done."""

    @property
    def exit_code(self) -> int:
        """The exit code of the process."""
        return self.error.exit_code if self.error else 0


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
    final: list[FinalReport] = []
    farewell: WorktreeResult | None = None
    try:
        final = await _until_stopped(ready, store, journal)
        farewell = await _finish(ready, journal)
    except LeaseLost as lost:
        return Ended(ready.run.id, RunState.RUNNING, 0, lost)
    except SegueError as caught:
        error = caught
    except Exception as caught:
        await _close(journal, RunState.FAILED, f"{type(caught).__name__}: {caught}")
        raise
    state = _state_after(error)
    await _close(journal, state, error.message if error else "")
    if ready.tree and farewell and farewell.merged:
        await ready.tree.forget()
    return Ended(ready.run.id, state, _done(journal) - before, error, tuple(final), farewell)


async def _finish(ready: Prepared, journal: Journal) -> WorktreeResult | None:
    """Merge or keep what a run has done in a work tree of its own."""
    if ready.tree is None:
        return None
    merge = ready.app.loaded.settings.worktree_end == "merge"
    farewell = await ready.tree.finish(ready.spec.onto, merge, ready.lock.release)
    await journal.emit(Event(EventType.NOTICE, {"text": farewell.words}))
    return farewell


def _done(journal: Journal) -> int:
    return sum(step.phase == "end" and step.state is StepState.DONE for step in journal.steps())


def _state_after(error: SegueError | None) -> RunState:
    if error is None:
        return RunState.DONE
    if isinstance(error, NeedsHuman):
        return RunState.NEEDS_HUMAN
    return RunState.STOPPED if isinstance(error, Interrupted | TimeLimit | JudgeFailed) else RunState.FAILED


async def _close(journal: Journal, state: RunState, note: str) -> None:
    await journal.emit(Event(EventType.RUN_ENDED, {"state": state, "note": note}))
    await journal.set_state(state, note)


async def _until_stopped(ready: Prepared, store: Store, journal: Journal) -> list[FinalReport]:
    """Drive until the end, Ctrl-C, `segue stop`, or the time limit of the run; leave nothing running."""
    while await journal.wait("stop", timeout=0):
        pass  # a request to stop that came after the last session had ended
    work = asyncio.create_task(_drive(ready, store, journal))
    stop = asyncio.create_task(journal.wait("stop"))
    limit = ready.app.loaded.settings.limits.run_timeout
    with on_interrupt(work.cancel):
        finished, _ = await asyncio.wait({work, stop}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if work not in finished:
            work.cancel()
    try:
        return await work
    except asyncio.CancelledError:
        run = ready.run.id
        kept, hint = "Everything recorded so far is saved.", f"Go on with: segue resume {run}"
        if not finished:
            raise TimeLimit(f"The run reached its time limit of {limit:g} s.", kept=kept, hint=hint) from None
        raise Interrupted(f"Run {run} was stopped; its agent was ended.", kept=kept, hint=hint) from None


async def _drive(ready: Prepared, store: Store, journal: Journal) -> list[FinalReport]:
    lock = ready.lock
    async with Processes(ready.app.run_folder(ready.run.id), (lock.fd,), lock.ensure) as processes:
        kit = _kit(ready, store, journal, processes)
        if ready.fresh and not kit.cloud:
            processes.warm()
        await _announce(ready, store, journal)
        try:
            await drive(kit, ready.spec.tasks)
        finally:
            await _end_review(kit)
    final = ready.app.loaded.settings.final
    run = _runner(ready, final.timeout)
    return await finish(journal, _final_commands(final), lambda argv: run(argv, ready.repo.root))


def _kit(ready: Prepared, store: Store, journal: Journal, processes: Processes) -> Kit:
    app, settings, redactor = ready.app, ready.app.loaded.settings, ready.app.redactor()
    spec = ready.spec
    cast = make_cast(app, spec.agent, spec.flow, processes, redactor, ready.without)
    cloud = cast[Role.EXECUTE][0].agent.can.cloud
    check = _runner(ready, settings.limits.phase_timeout)
    diagnostic = _runner(ready, settings.diagnostics.timeout, settings.diagnostics.output_bytes)
    return Kit(
        journal=journal,
        source=ready.source,
        cast=cast,
        workspace=make_workspace(app, ready.source, cloud, ready.repo, apart=ready.tree is not None),
        policy=Policy(
            flow=ready.spec.flow,
            attempts=settings.limits.attempts,
            commit=settings.commit,
            allow_no_change=settings.allow_no_change,
            go_on=settings.continue_with_remaining_tasks,
            max_failures=settings.max_consecutive_task_failures,
            limits=settings.limits.launch(),
            budget=settings.limits.budget(),
        ),
        spent=Spent.of(store.steps(ready.run.id)),
        redact=redactor.text,
        reviewing=make_reviewing(app, spec.flow, ready.repo.root, cloud),
        verifying=make_verifying(app, spec.flow, check, app.run_folder(ready.run.id)),
        building=make_building(app, spec.flow, ready.source, diagnostic),
    )


async def _end_review(kit: Kit) -> None:
    """A reviewer that keeps one session for the whole run closes it now."""
    if kit.reviewing is not None:
        subject = ReviewSubject(kit.workspace.root, "", "", "", "")
        warning = await kit.reviewing.reviewer.finish(subject)
        if warning:
            await kit.emit(EventType.NOTICE, text=warning)


def _final_commands(final: FinalSettings) -> list[FinalCommand]:
    named = (("review", final.review), ("audit", final.audit))
    return [FinalCommand(label, argv) for label, commands in named for argv in commands]


def _runner(ready: Prepared, limit: float, kept: int | None = None) -> RunCheck:
    """Runs a command of the user in a folder, within a time limit; `kept` bytes of the end of its output."""
    redactor = ready.app.redactor()

    async def run(argv: Sequence[str], folder: Path) -> tuple[int | None, str]:
        try:
            done = await capture(argv, folder, child_environment(), timeout=limit)
        except (SegueError, TimeoutError) as error:
            return None, str(error) or f"{argv[0]} took longer than {limit:g} s and was ended"
        said = redactor.text((done.out + done.err).decode("utf-8", "replace"))
        return done.exit_code, said[-kept:] if kept else said

    return run


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
    if isinstance(ready.source, PromptSource):
        return ""
    if not isinstance(ready.source, PlanFile):
        ready.source.begin(ready.run.id)
        return ""
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
