"""From a RunPlan to an open run: it is known that it can start, the repository is locked, it has its row."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.delivery import FeedbackItem
from segue.domain.errors import Locked, UsageError, WorkspaceError
from segue.domain.events import NoticeGiven
from segue.domain.run import Run, RunSpec, RunState, Step
from segue.ports import Source
from segue.proof.guard import settle_settings
from segue.runtime.app import App
from segue.runtime.delivery import Delivering, choose_target, is_merged
from segue.runtime.moved import mark_place, settle_source
from segue.runtime.past import Past, check_ticked, look_back, refuse_absent, settle_resume, settle_start
from segue.runtime.plan import RunPlan, check_rewritten, draft_run, plan_run, replan_run
from segue.runtime.preconditions import check_isolated
from segue.runtime.ready import (
    Confirm,
    Parts,
    ReadyRun,
    at_place,
    build_parts,
    exclude_state_files,
    lock_repository,
    make_ready,
    unfinished,
)
from segue.runtime.task_choice import ALL, TaskChoice
from segue.sources.state_file import CorruptState
from segue.system import identity
from segue.system.files import exclusive, private_folder
from segue.system.git.branches import REMOTE, RemoteBranches
from segue.system.git.config import Trust
from segue.system.git.index import allow_bytes
from segue.system.git.outside import trust_programs
from segue.system.git.repository import Repository
from segue.system.git.scratch import is_new_place
from segue.system.git.worktree import Worktree, branch_of
from segue.system.lock import RepoLock

if TYPE_CHECKING:
    from segue.store.database import Statement
    from segue.store.journal import Journal
    from segue.store.store import Store


_RECENT = 100
"""Runs among which is looked for the repository that was here."""
_CUT_OFF = (RunState.RUNNING, RunState.PARKED, RunState.STOPPED)
"""States in which a run whose tasks are all done may still have to record its end."""
T = TypeVar("T")


class Carrier(Protocol):
    """Takes the work of a run along that any machine may continue."""

    moved: bool
    """Whether another machine has worked on the run before this one."""

    def confirm(self) -> Statement:
        """Make sure that nobody has driven the run since its work was brought here; raises Locked.

        Returns what writes down that this machine drives it from now on.
        """

    def disconnect(self) -> None:
        """Close the connection to the database: agents may work for hours, and connections are few."""

    def stored(self, spec: RunSpec) -> RunSpec:
        """Return what other machines read: nothing in it is a path of this one."""

    async def pack(self, step: Step) -> Statement | None:
        """Return what stores the work as a step has left it; None: it has not changed."""

    async def deliver(self) -> str:
        """Hand the work over to the people who asked for it; say where it is."""


class OpenRun(Struct, frozen=True):
    """A run that may start: everything a user could have got wrong has been checked."""

    plan: RunPlan
    parts: Parts
    run: Run
    spec: RunSpec
    repo: Repository
    """The work tree that is worked in."""
    lock: RepoLock
    fresh: bool
    warning: str = ""
    tree: Worktree | None = None
    """The run's own work tree, if it has one."""
    past: Past = Past()
    """What was known about the source before."""
    feedback: tuple[FeedbackItem, ...] = ()
    """What came back from its pull request."""
    carrier: Carrier | None = None
    """Takes its work along, if any machine may drive it."""
    store: Store | None = None
    """Its store, if that is open already."""

    @property
    def is_first(self) -> bool:
        """True if it is certainly the first session of its source: each run of a fleet has its own."""
        return self.fresh and self.carrier is not None

    @property
    def stored(self) -> RunSpec:
        """What is stored of it for other processes."""
        return self.spec if self.carrier is None else self.carrier.stored(self.spec)

    @property
    def app(self) -> App:
        """The settings of the run."""
        return self.plan.app

    @property
    def source(self) -> Source:
        """Where its tasks come from."""
        return self.plan.source

    def delivering(self, store: Store, journal: Journal) -> Delivering | None:
        """Return what delivers its work; None if it works in the user's work tree or elsewhere."""
        if self.tree is None:
            return None
        services = self.parts.services
        return Delivering(self.app, services, self.spec, self.tree, self.source, store, journal)


@asynccontextmanager
async def open_run(
    app: App,
    named: str | None,
    chosen: TaskChoice = ALL,
    kind: str | None = None,
    *,
    restart: bool = False,
    confirm: Confirm = lambda: None,
) -> AsyncIterator[OpenRun | None]:
    """Check everything, lock the repository, find or create the run; None when there is nothing to do.

    With `restart` all tasks are pending again. Nothing is made or written before the last refusal; when there
    is no other, `confirm` is called.
    """
    allow_programs(app)
    home = await _find_home(app, app.source(named, app.repo, kind))
    source = app.source(named, home.root, kind)
    exclude_state_files(home, source)
    moved, is_copy = settle_source(app, source, home.root, restart=restart)
    with ExitStack() as held, ExitStack() as undo:
        with app.store(read_only=True) as known:
            _refuse_lost(known, home, app.repo)
            last = _last(known, source.key)
            run = unfinished(last)
            if run is not None:
                _refuse_changed_settings(app, run)
            before = await look_back(app, known, home, source, last, continues=bool(run), restart=restart)
            if not restart:
                _try(lambda: check_rewritten(source, app.loaded.settings.plan_changed))
                _try(lambda: check_ticked(app, source, before.history))
            draft = _try(lambda: draft_run(app, source, chosen))
            ready = None
            if draft is not None and (restart or _has_work(draft, run)):
                ready = await make_ready(draft, home, last, held, undo, confirm)
            wanted = [task.key for task in draft.pending] if draft is not None else []
            past = settle_start(app, source, before, last, restart, wanted)
        plan = plan_run(app, source, chosen)
        if not _has_work(plan, run):
            _tell_nothing(app, source, plan, past, moved)
            yield None
            return
        ready = ready or await make_ready(plan, home, last, held, undo, confirm)
        store = held.enter_context(app.store())
        opened = await _open_ready(plan, ready, store, home, held, undo)
        undo.pop_all()
        words = "\n".join(filter(None, (moved, *ready.words, opened.warning)))
        spec = replace(opened.spec, repository=mark_place(home.root, home.git_dir, fresh=is_copy))
        yield replace(opened, spec=spec, warning=words, past=past, store=store)


def _try(look: Callable[[], T]) -> T | None:
    """Look at a source whose record may be unreadable: it is restored later, or the run is refused."""
    try:
        return look()
    except CorruptState:
        return None


def _has_work(plan: RunPlan, run: Run | None) -> bool:
    """Return whether there is something to do, if only to record the end of a run."""
    return not plan.is_planned or bool(plan.pending) or (run is not None and run.state in _CUT_OFF)


def _tell_nothing(app: App, source: Source, plan: RunPlan, past: Past, moved: str) -> None:
    """Pass on the notices of a source of which nothing begins: they are in no journal."""
    said = (moved, past.restored, *(notice.show(source.address) for notice in plan.listing.notices))
    for words in filter(None, said if app.tell is not None else ()):
        assert app.tell is not None
        app.tell(words)


@asynccontextmanager
async def reopen_run(app: App, run: Run, feedback: tuple[FeedbackItem, ...] = ()) -> AsyncIterator[OpenRun]:
    """Open a run that exists, with the settings it was started with; `feedback` is more work for it."""
    with app.store(read_only=True) as known:
        refuse_absent(known, run)
    allow_programs(app)
    home = await Repository.open(Path(run.spec.repo))
    source = app.source(run.spec.source, home.root, run.spec.source_kind)
    with app.store(read_only=True) as known:
        before = await look_back(app, known, home, source, run)
        _try(lambda: check_ticked(app, source, before.history))
        draft = _try(lambda: replan_run(app, source, run, draft=True))
        ready = await _ready_again(draft, home, run) if draft is not None else None
        past = settle_resume(source, before)
    plan = replan_run(app, source, run)
    parts, warnings = ready or await _ready_again(plan, home, run)
    with app.store(read_only=True) as known:
        tree, repo, words = await _enter(known, home, run, source)
        words = "" if run.state is RunState.DONE else words  # its work tree was removed when it was done
    with lock_repository(repo, run.id) as lock:
        exclude_state_files(home, source, repo)
        warning = "\n".join(filter(None, (*warnings, words)))
        await repo.recover(run.created / 1000)
        spec = replace(run.spec, repository=mark_place(home.root, home.git_dir))
        yield OpenRun(plan, parts, run, spec, repo, lock, False, warning, tree, past, feedback)


async def _ready_again(plan: RunPlan, home: Repository, run: Run) -> tuple[Parts, list[str]]:
    """Build the parts of a run that continues, and see to it that its work can be delivered."""
    parts, warnings = await build_parts(plan, home)
    if not parts.cloud:
        check_isolated(plan.app, parts.services.isolation)
    await choose_target(plan.app, parts.services, home, run.spec)
    return parts, warnings


def allow_programs(app: App) -> None:
    """Let git start and read what the settings allow beyond the user's own configuration."""
    settings = app.loaded.settings.git
    trust_programs(Trust(settings.filters, settings.sign))
    allow_bytes(settings.add_bytes)


async def _find_home(app: App, source: Source) -> Repository:
    """Open the repository; one for a sentence may not exist yet. A wrong source is named before it."""
    if source.outline is not None and is_new_place(app.repo):
        root = Path(os.path.realpath(app.repo))
        return Repository(root, root / ".git")
    try:
        return await Repository.open(app.repo)
    except WorkspaceError:
        source.look()
        raise


def _refuse_lost(store: Store, home: Repository, asked: Path) -> None:
    """Refuse a repository around one whose `.git` is gone: an agent may have removed that."""
    here = Path(os.path.realpath(asked))
    if here == home.root:
        return
    for run in store.runs(limit=_RECENT):
        lost = Path(run.spec.repo)
        if lost != home.root and lost.is_relative_to(home.root) and here.is_relative_to(lost):
            raise WorkspaceError(
                f"{lost} was a repository when run {run.id} worked there. It is none now, and git would use "
                f"{home.root} instead.",
                kept="Nothing was started, and nothing was changed.",
                hint=f"Put {lost / '.git'} back, or name the other repository: --repo {home.root}",
            )


async def finish_end(app: App, run: Run) -> None:
    """Finish what a killed process still had to do for a run that is done: tidy up after git."""
    if run.owner is None or not identity.is_dead(run.owner.split("#")[0]):
        return
    with contextlib.suppress(WorkspaceError):
        home = await Repository.open(Path(run.spec.repo))
        await home.recover(run.created / 1000)
        tree = Worktree.of(home, run)
        if tree is not None and is_merged(app, run.spec):
            await tree.forget()


def _refuse_changed_settings(app: App, run: Run) -> None:
    """Refuse to continue with settings that an agent changed before its launch was cut off."""
    settled = settle_settings(app.guard_folder(run.id))
    if settled:
        raise UsageError(settled, kept="Nothing was started.", hint="Give the command again")


async def _open_ready(
    plan: RunPlan, ready: ReadyRun, store: Store, home: Repository, held: ExitStack, undo: ExitStack
) -> OpenRun:
    """Find or create the run: in the user's work tree, which is locked by now, or in one of its own."""
    spec = at_place(plan.spec(home.root, ready.run), ready.spec)
    if spec.worktree is not None:
        return await _open_apart(plan, ready, spec, store, home, held, undo)
    assert ready.lock is not None
    run, fresh = ready.run, ready.run is None
    if run is None:
        run = store.create(plan.source.key, spec)
        ready.lock.sign(run.id)
    else:
        await home.recover(run.created / 1000)
    return OpenRun(plan, ready.parts, run, spec, home, ready.lock, fresh)


async def _open_apart(
    plan: RunPlan,
    ready: ReadyRun,
    spec: RunSpec,
    store: Store,
    home: Repository,
    held: ExitStack,
    undo: ExitStack,
) -> OpenRun:
    """Make or find a work tree of the run's own; the same source is one run, also when two start at once."""
    assert spec.worktree is not None
    source = plan.source
    with exclusive(private_folder(Path(spec.worktree)) / f"{source.key}.lock"):
        run = ready.run or unfinished(_last(store, source.key))
        fresh = run is None
        run = run or store.create(source.key, spec)
        if fresh:
            undo.callback(store.discard, run.id)
        tree, repo, said = await _enter(store, home, run, source)
        lock = held.enter_context(lock_repository(repo, run.id))
        await repo.recover(run.created / 1000)
    exclude_state_files(home, source, repo)
    spec = replace(spec, worktree=run.spec.worktree, lanes=run.spec.lanes, onto=run.spec.onto)
    return OpenRun(plan, ready.parts, run, spec, repo, lock, fresh, said, tree=tree)


async def _enter(
    store: Store, home: Repository, run: Run, source: Source
) -> tuple[Worktree | None, Repository, str]:
    """Open the work tree of a run: the user's, or its own, which builds on what was done before it."""
    tree = Worktree.of(home, run)
    if tree is None:
        return None, home, ""
    _refuse_taken(store, run)
    before = [branch_of(known.id) for known in store.runs(run.source_key, limit=2) if known.id != run.id]
    repo, said = await tree.enter(begun=bool(store.steps(run.id)), starts=[source.head_branch(), *before])
    return tree, repo, said


def _refuse_taken(store: Store, run: Run) -> None:
    """Refuse to make the work tree again of a run that another process is finishing or has just finished."""
    now = store.run(run.id) or run
    owner = (now.owner or "").split("#")[0]
    finished = now.state is RunState.DONE and run.state is not RunState.DONE
    if finished or (identity.is_here(owner) and not identity.is_dead(owner)):
        raise Locked(
            f"Another process {'has just finished' if finished else 'works on'} run {run.id}.",
            kept="Nothing was changed.",
            hint=f"Watch it with: segue logs -f {run.id}   or stop it with: segue stop {run.id}",
        )


def _last(store: Store, key: str) -> Run | None:
    return next(iter(store.runs(source_key=key, limit=1)), None)


def make_remote(opened: OpenRun, journal: Journal, run: str = "") -> RemoteBranches:
    """Return the branches of the remote on which cloud agents work; `run` is the one that lanes share."""
    told = set()

    async def tell(said: str) -> None:
        if said not in told:
            told.add(said)
            await journal.emit(NoticeGiven(said))

    scratch, spec = opened.app.state_dir.absolute() / "worktrees", opened.spec
    return RemoteBranches(
        opened.repo,
        REMOTE,
        scratch,
        spec.base,
        run,
        address=spec.remote,
        work=opened.source.head_commit,
        tell=tell,
    )
