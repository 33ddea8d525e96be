"""What a person decides about a run that nobody works on: a task is done or skipped, work is proposed."""

from __future__ import annotations

import getpass
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.delivery import Delivered
from segue.domain.errors import Locked, SegueError, UsageError
from segue.domain.events import TaskMarked
from segue.domain.proof import accept
from segue.domain.results import EndOutput, SnapshotOutput, StepFacts, StepResult, read_as
from segue.domain.run import Run, RunState
from segue.domain.task import Completion, Task, TaskStatus
from segue.flow.earlier import find_left
from segue.flow.say import said_about
from segue.flow.words import topic_of
from segue.ports import Source
from segue.runtime.app import App
from segue.runtime.background import start_resume
from segue.runtime.delivery import Delivering, choose_target
from segue.runtime.past import read_history
from segue.runtime.pull_request import find_returned
from segue.system.git.integration import Integration
from segue.system.git.lanes import LaneTrees
from segue.system.git.repository import Repository
from segue.system.git.worktree import Worktree, branch_of, workplace
from segue.system.lock import RepoLock
from segue.system.process.processes import Processes
from segue.view.load import ACTIVE, load_view, state_of

if TYPE_CHECKING:
    from segue.store.journal import Journal


AT_WORK = ("running", "parked")
"""The states of a task that an agent works on, or would if it could."""
_NOT_AT_WORK = ("pending", "waiting", "blocked", "needs_human")
"""The states of a task that has not begun, or would begin again."""
_ALLOWED = {"comment": (*_NOT_AT_WORK, *AT_WORK), "skip": _NOT_AT_WORK}
"""The states of a task in which the process that drives the run takes something; all else once it failed."""
_ENDED = ("done", "skipped")


async def accept_lane(
    app: App, journal: Journal, home: Repository, repo: Repository, task: Task, pushed: str | None
) -> tuple[str | None, str | None]:
    """Merge what a task has left in its lane, or a cloud agent has pushed; return its commit and the branch.

    Raises UsageError if it does not fit what others have merged.
    """
    run = journal.run
    branch = Integration(repo, branch_of(run.id), run.created / 1000)
    commit, place = pushed, str(home.root)
    if run.spec.worktree is not None:
        trees = LaneTrees(home, app.state_dir.absolute() / "worktrees", run.id, run.created / 1000)
        number = _lane_of(journal, task)
        if not number or not trees.path(number).is_dir():
            return None, None
        lane = await trees.open(number, await branch.head())
        lane.own = home.own
        await lane.commit(f"Task {task.key}: {task.title}\n\nSegue-Run: {run.id}\nSegue-Task: {task.key}\n")
        commit, place = await lane.head(), str(lane.root)
    if commit is not None:
        await _merge(branch, commit, task, place)
    return commit, branch.branch


def _lane_of(journal: Journal, task: Task) -> int:
    """Return the lane in which a task was worked on last; 0 if it never was."""
    steps = journal.steps(f"task/{task.key}/base")
    return read_as(SnapshotOutput, steps[-1].output).lane if steps else 0


async def _merge(branch: Integration, commit: str, task: Task, place: str) -> None:
    objects = branch.repo.objects()
    while not await branch.contains(commit):
        before, new = await branch.head(), commit
        if not await objects.is_ancestor(before, commit):
            merged = await branch.merge(before, commit)
            if not merged.tree:
                names = ", ".join(merged.conflicts[:5]) or merged.said
                raise UsageError(
                    f"The work of task {task.key} does not fit what was merged meanwhile: "
                    f"both changed {names}.",
                    kept=f"It is committed in {place}; the task is still open.",
                    hint=f"Merge it there: git -C {place} merge {branch.branch}   then accept it again",
                )
            new = await branch.join(before, commit, merged.tree, f"Merge task {task.key}: {task.title}\n")
        await branch.advance(before, new)


class HeldRun(Struct, frozen=True):
    """A run that nobody works on, and that nobody can begin to work on now."""

    home: Repository
    repo: Repository
    source: Source
    journal: Journal
    by: str
    """Who decides, by git's configuration."""


@asynccontextmanager
async def hold_run(app: App, run: Run, via: str = "") -> AsyncIterator[HeldRun]:
    """Hold a run while the block changes what is stored of it. Refused while a process works on the run.

    `via` says how the person reached Segue, where that is not a person's own command or click.
    """
    if run.spec.origin is not None:
        raise UsageError(
            f"Run {run.id} is driven by a fleet, so its plan cannot be edited from here.",
            kept="Nothing was changed.",
            hint=f'Say what should change: segue task say plan "…" --run {run.id}',
        )
    home = await Repository.open(Path(run.spec.repo))
    source = app.source(run.spec.source, home.root, run.spec.source_kind)
    with app.store(read_only=True) as known:
        source.restore(read_history(known, source.key))
        repo = await workplace(home, run, begun=bool(known.steps(run.id)))
    if state_of(run) in ACTIVE:
        lock = RepoLock.take(repo.git_dir, run.id)
    else:
        lock = await RepoLock.take_after(repo.git_dir, run.id)
    try:
        with app.store() as store:
            journal = await store.open(run.id)
            try:
                by = ", ".join(filter(None, (await home.author() or "a person", via)))
                yield HeldRun(home, repo, source, journal, by)
            finally:
                await store.close(journal)
    finally:
        lock.release()


def find_task(source: Source, key: str) -> Task:
    """Return a task of the source; raises UsageError if there is none."""
    task = next((task for task in source.tasks().tasks if task.key == key), None)
    if task is None:
        said = f"There is no task {key!r} in {source.address}."
        raise UsageError(said, hint="See: segue task list")
    return task


async def decide(app: App, run: Run, key: str, reason: str, *, skip: bool, via: str = "") -> bool:
    """Write the decision into the source and the journal.

    While the run works, it does so itself, between two tasks: then the result is True.
    """
    try:
        if run.spec.origin is not None:
            await _decide_in_fleet(app, run, key, reason, skip, via)
        else:
            await _decide_here(app, run, key, reason, skip, via)
    except Locked as busy:
        await tell_running(app, run, key, {"skip" if skip else "accept": reason}, via, busy)
        return True
    return False


def describe_later(key: str, *, skip: bool) -> str:
    """Say what the process that drives a run does with a decision that it was sent."""
    return f"The run works: it will {'skip' if skip else 'accept'} task {key} before it begins another one."


async def try_again(app: App, run: Run, key: str, via: str = "") -> bool:
    """Have a task tried again that failed; the result is True where the run works and does it later."""
    if state_of(run) in ACTIVE:
        await tell_running(app, run, key, {"retry": ""}, via)
        return True
    await start_resume(app, run)
    return False


async def tell_running(
    app: App, run: Run, key: str, words: Mapping[str, str], via: str, busy: Locked | None = None
) -> str:
    """Send words about a task to the process that drives the run: a decision, or something for its agent.

    Returns the state of the task. Refused, with the reason, if it is in a state in which nobody would take
    them; `busy` says why nobody else may decide.
    """
    if run.spec.origin is not None:
        by = getpass.getuser()
    else:
        by = await (await Repository.open(Path(run.spec.repo))).author() or "a person"
    with app.store() as store:
        task = load_view(store, run).tasks.get(key)
        if task is None:
            said = f"There is no task {key!r} in run {run.id}."
            raise UsageError(said, hint="See: segue task list")
        verb = next(iter(words))
        allowed = _ALLOWED.get(verb, ("needs_human",))
        if task.state not in allowed:
            raise _explain(run, key, task.state, verb, busy)
        topic, sent = said_about(key) if verb == "comment" else topic_of(key), uuid.uuid4().hex
        store.send(run.id, topic, {**words, "by": ", ".join(filter(None, (by, via)))}, sent)
        state = load_view(store, run).tasks[key].state
        if state not in allowed and store.withdraw(run.id, sent):  # it began, or ended, meanwhile
            raise _explain(run, key, state, verb, busy)
    return state


_VERBS = {
    "skip": ("skipped", 'segue task skip {} --reason "…"'),
    "accept": ("accepted", "segue task accept {}"),
    "retry": ("tried again", ""),
}


def _explain(run: Run, key: str, state: str, verb: str, busy: Locked | None) -> SegueError:
    """Say why something is not taken about a task while a process works on its run, and what to type."""
    if busy is not None and state_of(run) not in ACTIVE:
        return busy
    if state in _ENDED and verb == "comment":
        what = f"Task {key} is {state}; it is opened again only while nobody works on the run"
        hint = f'When the run has ended: segue task say {key} "…"'
        return Locked(f"{what}.", kept="Nothing was changed.", hint=hint)
    if state in _ENDED:
        return _already_done(run, key, state)
    decided, command = _VERBS[verb]
    what = f"Task {key} is {'being worked on' if state in AT_WORK else state}, so it cannot be {decided} now"
    steps = ["segue stop {}", *filter(None, (command.format(key),)), "segue resume {}"]
    hint = f"Stop the run first: {' && '.join(steps).format(run.id, run.id)}"
    return Locked(f"{what}.", kept="Nothing was changed.", hint=hint)


async def _decide_here(app: App, run: Run, key: str, reason: str, skip: bool, via: str) -> None:
    with app.store(read_only=True) as known:
        returned = find_returned(known, run, key)
    async with hold_run(app, run, via) as held:
        task = returned or find_task(held.source, key)
        if task.status is TaskStatus.DONE:
            raise _already_done(run, key)
        left = (None, None) if skip else _left(held.journal, task)
        if run.spec.lanes and not skip and returned is None:
            left = await accept_lane(app, held.journal, held.home, held.repo, task, left[0])
        source = held.source if returned is None else None
        await _write(held.journal, task, held.by, reason, skip, source, left)


def _already_done(run: Run, key: str, state: str = "done") -> UsageError:
    return UsageError(
        f"Task {key} is already {state}.",
        kept="Nothing was changed.",
        hint=f"What became of it: segue proof {run.id} {key}",
    )


async def _decide_in_fleet(app: App, run: Run, key: str, reason: str, skip: bool, via: str) -> None:
    """Write the decision into the journal alone: the worker that continues the run tells the source."""
    async with hold_fleet_run(app, run, via) as (journal, by):
        task = find_fleet_task(journal, key)
        left = (None, None) if skip else _left(journal, task)
        await _write(journal, task, by, reason, skip, None, left)


@asynccontextmanager
async def hold_fleet_run(app: App, run: Run, via: str = "") -> AsyncIterator[tuple[Journal, str]]:
    """Hold the journal of a fleet's run, and say who decides; its source and its work are elsewhere."""
    with app.store() as store:
        journal = await store.open(run.id)
        try:
            yield journal, ", ".join(filter(None, (getpass.getuser(), via)))
        finally:
            await store.close(journal)


def find_fleet_task(journal: Journal, key: str) -> Task:
    """Return a task of a fleet's run that is not done; raises UsageError if there is none."""
    run = journal.run
    title = run.spec.titles.get(key)
    if title is None:
        known = ", ".join(list(run.spec.titles)[:10])
        raise UsageError(f"There is no task {key!r} in run {run.id}.", hint=f"Its tasks: {known}")
    ended = journal.recorded(f"task/{key}/end", EndOutput)
    if ended is not None and ended.ok:
        raise _already_done(run, key)
    return Task(key, title, "")


async def _write(
    journal: Journal,
    task: Task,
    by: str,
    reason: str,
    skip: bool,
    source: Source | None,
    left: tuple[str | None, str | None],
) -> None:
    end = f"task/{task.key}/end"
    status = TaskStatus.SKIPPED if skip else TaskStatus.DONE
    commit, branch = left
    before = journal.recorded(end, EndOutput)
    measured = before.output.proof if before is not None else None
    await journal.redo(end)

    async def work(_token: str) -> StepResult[EndOutput]:
        digest = source.fingerprint(task) if source is not None else ""
        seq = (await journal.emit(TaskMarked(task.key, True, by, reason, skip, digest), end)).seq
        if source is not None:
            source.mark(task, Completion(status, journal.run.id, seq, commit=commit, branch=branch))
        proof = None if skip else accept(measured, by)
        ending = EndOutput(done=True, reason=reason, commit=commit, branch=branch, skipped=skip, proof=proof)
        return StepResult(True, ending)

    await journal.step(end, EndOutput, work, facts=StepFacts(task.key, "end"))


def _left(journal: Journal, task: Task) -> tuple[str | None, str | None]:
    """Return the commit and branch where the last launch left its work: the next task builds on it."""
    left = find_left(journal.steps(f"task/{task.key}/"))
    return (left.head or None, left.branch) if left else (None, None)


async def propose(app: App, run: Run) -> Delivered:
    """Push the branch of a run that nobody works on and open a pull request; a draft while it is not done.

    The run continues as one that ends as this pull request.
    """
    if run.spec.worktree is None:
        raise UsageError(
            f"Run {run.id} works in your own work tree: it has no branch to propose.",
            kept="Nothing was changed.",
            hint="Start the next one with --pr",
        )
    own = App.load_for(run, command_line={**app.place(), "delivery": "pr"})
    async with hold_run(own, run) as held:
        tree = Worktree.of(held.home, run)
        assert tree is not None
        services = own.services(Processes(), held.home.root)
        spec, _ = await choose_target(own, services, held.home, run.spec)
        with own.store(read_only=True) as store:
            delivering = Delivering(own, services, spec, tree, held.source, store, held.journal)
            if not await delivering.has_work():
                raise UsageError(
                    f"There is nothing to propose: branch {tree.branch} has nothing that {spec.into} lacks.",
                    kept="Nothing was changed.",
                )
            await held.journal.respec(replace(spec, settings={**spec.settings, "delivery": "pr"}))
            found = await delivering.deliver(delivering.delivery, _explain_draft(run))
        if run.state is RunState.DONE:
            await tree.remove()
    return found


def _explain_draft(run: Run) -> str:
    """Say why the work is not ready; empty: it is."""
    return "" if run.state is RunState.DONE else run.note or "The run is not done yet."
