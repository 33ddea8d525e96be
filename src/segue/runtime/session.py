"""One process, one run: what guards it while it works, and how it ends."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Collection, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from segue import __version__
from segue.config.settings import FinalSettings
from segue.domain.errors import (
    AGAIN,
    HandedOver,
    Interrupted,
    LeaseLost,
    NeedsHuman,
    SegueError,
    ServiceAway,
    StoreError,
    StoreFull,
    TimeLimit,
    WaitsElsewhere,
    WorkspaceError,
)
from segue.domain.events import NoticeGiven, RunResumed, RunStarted, StateImported, TaskMarked
from segue.domain.results import read_launch
from segue.domain.run import RunState
from segue.domain.task import TaskStatus
from segue.domain.workspace import Workspace
from segue.flow.agents import Launcher
from segue.flow.budgets import Budgets
from segue.flow.commands import FinalCommand, FinalReport, run_final_commands
from segue.flow.context import RunContext, Survey
from segue.flow.earlier import read_earlier, read_touched
from segue.flow.scheduler import run_tasks
from segue.flow.survey import end_survey, ends_in_time
from segue.ports import Observer, ReviewSubject
from segue.proof.guard import LaunchGuard
from segue.proof.independent import DetachedTests
from segue.runtime.budgets import read_usage
from segue.runtime.ending import close_run, last_seen, state_after
from segue.runtime.guard import list_contract, make_contract, make_guard
from segue.runtime.open import OpenRun, make_remote
from segue.runtime.past import find_unrecorded, name_ticked
from segue.runtime.pull_request import PullRequestFeedback
from segue.runtime.wiring import (
    command_runner,
    examine_project,
    make_checking,
)
from segue.store.database import EVERY_SECOND, Disconnected
from segue.system.files import explain_full_disk
from segue.system.git.aside import WorkAside
from segue.system.git.branches import LocalBranches
from segue.system.git.folders import common_dir
from segue.system.git.outside import read_config
from segue.system.git.remotes import find_missing
from segue.system.git.worktree import WorktreeResult
from segue.system.patience import outlast
from segue.system.process.group import on_interrupt
from segue.view.run import FOLDED, RunView

if TYPE_CHECKING:
    from segue.runtime.parallel import RunLanes
    from segue.store.journal import Journal
    from segue.store.store import Store

_LONGEST_WAIT = 60.0
"""Seconds for which a worker of a fleet waits for a usage limit, or a remote, with a run in its hands."""
_GIT_PATIENCE = 3.0
"""Seconds to wait at the end for gits that are still at work, such as a commit whose editor is open."""


class SessionEnd(Struct, frozen=True):
    """How a session ended."""

    run: str
    state: RunState
    done: int
    """Tasks that were done in this session."""
    error: SegueError | None = None
    final: tuple[FinalReport, ...] = ()
    worktree: WorktreeResult | None = None
    """What became of the run's own work tree, when it is done."""

    @property
    def exit_code(self) -> int:
        """The exit code of the process."""
        return self.error.exit_code if self.error else 0


async def run_session(opened: OpenRun, observers: Sequence[Observer] = ()) -> SessionEnd:
    """Claim the run, run its tasks and say how it ended."""
    run, known = opened.run, opened.store
    with nullcontext(known) if known is not None else opened.app.store() as store:
        view = RunView.of(run.spec.titles, () if opened.fresh else store.events(run.id, kinds=FOLDED))
        journal = await store.open(run.id, [view.apply, *observers])
        try:
            if opened.carrier is not None:
                journal.carry(opened.carrier.pack, opened.carrier.confirm())
            ended = await _Session(opened, store, journal, view).run()
        except BaseException as error:
            if isinstance(error, SegueError):
                error.name_run(run.id)
            with suppress(StoreError):  # what is wrong with it has been said
                await store.close(journal)
            raise
        await store.close(journal)
        if ended.error is not None:
            ended.error.name_run(run.id)
        return ended


class _Session:
    """A claimed run while this process works on it."""

    def __init__(self, opened: OpenRun, store: Store, journal: Journal, view: RunView) -> None:
        self._opened = opened
        self._store = store
        self._journal = journal
        self._view = view
        self._before = view.done
        self._refused = ""
        """Why the remote does not take the work."""
        self._known: list[str] = []
        """Tasks that count as done although no run did them."""
        self._returned = PullRequestFeedback.of(opened, store, journal, view)

    async def run(self) -> SessionEnd:
        """Run the tasks, and turn whatever ends that into a state of the run."""
        opened = self._opened
        error: SegueError | None = None
        final: list[FinalReport] = []
        result: WorktreeResult | None = None
        try:
            final = await self._until_stopped()
            result = await self._finish_worktree()
            if self._returned is not None:
                await self._returned.answer()
        except LeaseLost as lost:
            return SessionEnd(opened.run.id, RunState.RUNNING, 0, lost)
        except SegueError as caught:
            error = caught
            if isinstance(caught, NeedsHuman):
                await self._propose_part(caught)
        except Exception as caught:
            error = explain_full_disk(caught)
            if error is None:
                await close_run(self._journal, RunState.FAILED, f"{type(caught).__name__}: {caught}")
                raise
        state = state_after(error)
        try:
            away = await self._deliver(state)
            if away is not None and error is None:  # the work is done, and still to be handed over
                error, state = away, state_after(away)
            wake = error.until if isinstance(error, WaitsElsewhere) else None
            await close_run(self._journal, state, error.message if error else self._refused, wake)
        except StoreError as broken:
            broken.kept = " ".join(filter(None, (broken.kept, self._name_work())))
            raise
        await self._tidy(merged=result is not None and result.merged)
        return SessionEnd(opened.run.id, state, self._view.done - self._before, error, tuple(final), result)

    async def _deliver(self, state: RunState) -> WaitsElsewhere | None:
        """Hand the work of a run that any machine may drive over to people, once they have to look at it.

        Returns what to wait for where the remote is away for longer than a worker waits.
        """
        carrier = self._opened.carrier
        if carrier is None or state not in (RunState.DONE, RunState.FAILED, RunState.NEEDS_HUMAN):
            return None
        patience = min(self._opened.app.loaded.settings.limits.patience, _LONGEST_WAIT)
        try:
            said = await outlast(carrier.deliver, patience, self._journal.emit)
        except ServiceAway as away:
            said = f"The work could not be pushed yet. {away.message} It is in the database."
            await self._journal.emit(NoticeGiven(said))
            return WaitsElsewhere(said, time.time() + _LONGEST_WAIT)
        except WorkspaceError as refused:
            said = self._refused = refused.message
        await self._journal.emit(NoticeGiven(said))
        return None

    async def _tidy(self, merged: bool) -> None:
        """Delete the branch of a run that was merged, and locks of gits that were killed during the run."""
        tree = self._opened.tree
        if tree is not None and merged:
            await tree.forget()
        home = tree.home if tree is not None else self._opened.repo
        await home.recover(self._opened.run.created / 1000, _GIT_PATIENCE)

    def _name_work(self) -> str:
        """Say where the work is that the database may not know."""
        commits = [task.commit[:10] for task in self._view.tasks.values() if task.commit]
        listed = f" as {', '.join(commits[-5:])}" if commits else ""
        return f"The work is in {self._opened.repo.root}{listed}."

    async def _until_stopped(self) -> list[FinalReport]:
        """Work until the end, Ctrl-C, `segue stop`, or the time limit of the run; leave nothing running."""
        journal, run = self._journal, self._opened.run.id
        while await journal.wait("stop", timeout=0) is not None:
            pass  # a request to stop that came after the last session had ended
        work = asyncio.create_task(self._work())
        stop = asyncio.create_task(_until_asked_to_stop(journal))
        limit = self._opened.app.loaded.settings.limits.run_timeout
        with on_interrupt(work.cancel):
            finished, _ = await asyncio.wait({work, stop}, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
            stop.cancel()
            if work not in finished:
                work.cancel()
        try:
            return await work
        except asyncio.CancelledError:
            if stop in finished:
                stop.result()  # raises what ended it, if nobody asked
            kept, hint = "Everything recorded so far is saved.", f"Continue with: segue resume {run}"
            if not finished:
                message = f"The run reached its time limit of {limit:g} s."
                raise TimeLimit(message, kept=kept, hint=hint) from None
            if self._opened.carrier is not None and stop not in finished:
                raise HandedOver("The worker ends; another one continues.", kept=kept) from None
            raise Interrupted(f"Run {run} was stopped; its agent was ended.", kept=kept, hint=hint) from None

    async def _work(self) -> list[FinalReport]:
        opened = self._opened
        processes, lock = opened.parts.services.processes, opened.lock
        processes.bind(opened.app.run_folder(opened.run.id), (lock.fd,), lock.ensure)
        async with processes:
            if opened.fresh and not opened.parts.cloud and opened.carrier is None:
                await processes.warm()
            guard = make_guard(opened)
            await guard.prepare()
            context = self._context(guard)
            await self._announce(guard)
            if opened.carrier is not None:
                opened.carrier.disconnect()
            hooks = context.checking.hooks
            has_hooks = hooks is not None and not context.cloud and await hooks.keep()
            if context.checking.commands or context.checking.smoke or has_hooks:
                await context.checking.sealer().prepare()
            before = {key for key, task in self._view.tasks.items() if task.commit}
            lanes = await self._begin_lanes(context)
            try:
                with opened.source.batch():
                    if lanes is None:
                        await run_tasks(context, opened.spec.tasks)
                    else:
                        await lanes.run_tasks(context)
                    if self._returned is not None:
                        await self._returned.run(context)
            finally:
                await end_survey(context)
                await _end_review(context)
            await self._account_for_all()
            if lanes is not None:
                await lanes.finish(context)
            await self._verify_delivery(before)
            if lanes is not None:
                await lanes.close()
        settings = opened.app.loaded.settings
        run = command_runner(opened.parts.services, settings.check_timeout)
        commands = _final_commands(settings.final)
        return await run_final_commands(self._journal, commands, lambda argv: run(argv, opened.repo.root))

    async def _begin_lanes(self, context: RunContext) -> RunLanes | None:
        if not self._opened.spec.lanes or self._returned is not None:
            return None
        from segue.runtime.parallel import RunLanes  # runs with one task at a time start sooner

        lanes = RunLanes(self._opened, self._journal)
        await lanes.begin(context)
        return lanes

    async def _account_for_all(self) -> None:
        """See to it that no task is left, before anybody calls the run done.

        A task that a person marked while the run worked is that person's decision; a tick in a file that
        agents push is none.
        """
        chosen, source = set(self._opened.spec.tasks), self._opened.source
        ticked = [key for key in find_unrecorded(source, self._opened.past.history) if key not in self._known]
        if ticked:
            raise NeedsHuman(
                name_ticked(ticked),
                kept="Everything done so far is kept.",
                hint=f"Open the box again if it is not done, then {AGAIN}. "
                f"If it is: segue run {source.address} --plan-changed keep",
            )
        status = {task.key: task.status for task in source.look().tasks}
        for key, task in self._view.tasks.items():
            if task.state == "pending" and status.get(key) is TaskStatus.DONE:
                reason = "it was marked as done while the run worked"
                await self._journal.emit(TaskMarked(key, True, "a person", reason))
        open_now = [key for key, now in status.items() if now is TaskStatus.PENDING]
        left = [key for key in open_now if not chosen or key in chosen]
        if left:
            raise NeedsHuman(
                f"{len(left)} tasks are still pending: {', '.join(left[:5])}.",
                kept="Everything done so far is kept.",
                hint=f"Continue with: segue resume {self._opened.run.id}",
            )

    async def _verify_delivery(self, before: Collection[str]) -> None:
        """See to it that somebody who clones the repository gets all work of this session."""
        tasks = [task for key, task in self._view.tasks.items() if key not in before and task.state == "done"]
        work = {task.commit: task.proof.tree if task.proof else "" for task in tasks if task.commit}
        if not work or self._opened.parts.cloud or self._opened.carrier is not None:
            return  # or it was packed, which is a copy already
        missing = await find_missing(self._opened.repo, work)
        if missing:
            raise NeedsHuman(
                f"Some work of this run is missing: {'; '.join(missing)}.",
                kept="Nothing was deleted; git keeps unreachable commits for some time.",
                hint="Bring them back with: git branch NAME COMMIT",
            )

    def _context(self, guard: LaunchGuard) -> RunContext:
        opened, parts = self._opened, self._opened.parts
        redactor = parts.services.redactor
        folder, guards = opened.app.run_folder(opened.run.id), opened.app.guard_folder(opened.run.id)
        examine = examine_project(opened.app, folder) if parts.building else None
        return RunContext(
            flow=opened.plan.flow,
            journal=self._journal,
            source=opened.source,
            agents=parts.agents,
            stronger=parts.stronger,
            workspace=make_workspace(opened, self._journal),
            policy=opened.plan.policy,
            launcher=self._launcher(guard),
            view=self._view,
            checking=make_checking(opened.app, opened.repo, folder / "checks", guards, examine),
            redact=redactor.text,
            reviewing=parts.reviewing,
            judging=parts.judging,
            building=parts.building,
            resumed_by_person=self._is_resumed_by_person(),
            testing=DetachedTests(opened.repo, folder / "independent", opened.app.exams()),
            earlier={} if opened.is_first else read_earlier(self._store, opened.run.source_key),
            touched=read_touched(self._store, opened.run.source_key) if opened.spec.lanes else {},
            contract=list_contract(opened) if parts.cloud else {},
            survey=Survey(is_timed=self._knows_times()),
            aside=None if parts.cloud else WorkAside(opened.repo, opened.run.id),
        )

    def _knows_times(self) -> bool:
        """Return whether earlier runs have shown that the checks end in time."""
        opened, settings = self._opened, self._opened.app.loaded.settings
        if opened.is_first or not settings.checks:
            return False
        redact = opened.parts.services.redactor.text
        commands = [redact(shlex.join(argv)) for argv in settings.checks]
        return ends_in_time(self._store, opened.run.source_key, commands, settings.check_timeout)

    def _is_resumed_by_person(self) -> bool:
        opened = self._opened
        if opened.carrier is not None:  # only people put a run back into the queue that waits for one
            return self._view.asked
        return not opened.fresh and opened.run.state is RunState.NEEDS_HUMAN

    def _launcher(self, guard: LaunchGuard) -> Launcher:
        limits, carrier = self._opened.app.loaded.settings.limits, self._opened.carrier
        launcher = Launcher(
            self._journal,
            self._view,
            limits.launch(),
            limits.budget(),
            limits.attempts,
            Budgets(limits.budgets(), partial(read_usage, self._store, "day")),
            guard=guard,
            slots=limits.slots,
            folders=(self._opened.app.run_folder(self._opened.run.id), common_dir(self._opened.repo.git_dir)),
        )
        if carrier is not None:
            processes = self._opened.parts.services.processes
            launcher.longest_wait = _LONGEST_WAIT
            launcher.is_elsewhere = lambda token: not processes.knows(token)
            steps = self._journal.steps() if carrier.moved else []
            ended = filter(None, (read_launch(step.input, step.output) for step in steps))
            launcher.forgotten = frozenset(launch.session for launch in ended if launch.session)
        return launcher

    async def _announce(self, guard: LaunchGuard) -> None:
        opened, journal = self._opened, self._journal
        spec, run = opened.stored, opened.run
        journal.begin(spec)
        facts = (spec.source, spec.repo, spec.agent, spec.flow, spec.model, spec.tasks)
        isolation = "" if opened.parts.cloud else opened.parts.services.isolation.label
        if opened.fresh:
            await journal.emit(RunStarted(*facts, base=spec.base, isolation=isolation, segue=__version__))
            await journal.emit(make_contract(opened, guard))
            for said in (await read_config(opened.repo.place)).unsigned if not opened.parts.cloud else ():
                await journal.emit(NoticeGiven(said))
        else:
            await journal.emit(RunResumed(*facts, last_seen(self._store, run.id), isolation, __version__))
        for prefix in opened.past.redo:
            await journal.redo(prefix)
        await self._settle()
        if self._returned is not None:
            await self._returned.receive()
        for notice in opened.source.look().notices:
            await journal.emit(NoticeGiven(notice.text, notice.line))

    async def _settle(self) -> None:
        """Write down what counts as done from now on, where source and journal disagreed about it."""
        past, source = self._opened.past, self._opened.source
        now = source.look().tasks
        done = {task.key: source.fingerprint(task) for task in now if task.status is TaskStatus.DONE}
        skipped = tuple(task.key for task in now if task.status is TaskStatus.SKIPPED)
        pending = {task.key for task in now if task.status is TaskStatus.PENDING}
        again = [key for key in past.history.done if key in pending]
        self._known = find_unrecorded(source, past.history)
        ticked = f"Counted as done, although no run did it: {', '.join(self._known)}." if self._known else ""
        said = past.restored or (f"Pending again: {', '.join(again)}." if again else ticked)
        if said:
            await self._journal.emit(StateImported(said, None, done, skipped, past.without))
        self._before = self._view.done

    async def _finish_worktree(self) -> WorktreeResult | None:
        """Deliver what a run has done in a work tree of its own, and remove that."""
        delivering = self._opened.delivering(self._store, self._journal)
        return None if delivering is None else await delivering.finish(self._opened.lock.release)

    async def _propose_part(self, why: NeedsHuman) -> None:
        """Propose what is done so far as a draft, where the run goes out as a pull request."""
        delivering = self._opened.delivering(self._store, self._journal)
        if delivering is not None and (self._returned is None or await self._returned.may_propose()):
            await delivering.propose_part(why)


def make_workspace(opened: OpenRun, journal: Journal) -> Workspace:
    """Return where the work happens: on remote branches, on a branch per task, or in the user's work tree.

    A run with a work tree of its own has a branch of its own there, for all its tasks.
    """
    prefix = opened.source.branch_prefix
    if opened.parts.cloud:
        return make_remote(opened, journal)
    if opened.tree is not None or prefix is None:
        return opened.repo
    return LocalBranches(opened.repo, prefix)


async def _until_asked_to_stop(journal: Journal) -> None:
    """Wait for `segue stop`. A database that is away asks for nothing: who works notices it, and decides."""
    while True:
        with suppress(Disconnected, StoreFull):
            await journal.wait("stop")
            return
        await asyncio.sleep(EVERY_SECOND)


async def _end_review(context: RunContext) -> None:
    """Close the session of a reviewer that keeps one for the whole run."""
    if context.reviewing is not None:
        subject = ReviewSubject(context.workspace.root, "", "", "", "")
        warning = await context.reviewing.reviewer.finish(subject)
        if warning:
            await context.emit(NoticeGiven(warning))


def _final_commands(final: FinalSettings) -> list[FinalCommand]:
    named = (("review", final.review), ("audit", final.audit))
    return [FinalCommand(label, argv) for label, commands in named for argv in commands]
