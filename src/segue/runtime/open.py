"""From a RunPlan to an open run: every part is built once, the repository is locked, the run has its row."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.delivery import FeedbackItem
from segue.domain.errors import Locked, UsageError, WorkspaceError
from segue.domain.role import Role
from segue.domain.run import Run, RunSpec, RunState
from segue.flow.context import Building, Judging, Reviewing
from segue.flow.launch import AgentChain
from segue.ports import Carrier, Source, Store
from segue.proof.guard import settle_settings
from segue.runtime.app import App
from segue.runtime.delivering import aim, is_merged
from segue.runtime.past import Past, refuse_absent, settle_resume, settle_start
from segue.runtime.plan import RunPlan, check_chains, judges_of, plan_run, replan_run
from segue.runtime.preconditions import SETTINGS, check_clean, check_preconditions
from segue.runtime.units import ALL, Units
from segue.runtime.wiring import (
    check_programs,
    drop_unready,
    make_building,
    make_chains,
    make_judging,
    make_reviewing,
)
from segue.system import identity
from segue.system.files import clear_temporary, exclusive, private_folder
from segue.system.git.repository import Repository, new_repository
from segue.system.git.worktree import Worktree, branch_of, no_commit, unmerged
from segue.system.lock import RepoLock
from segue.system.process.processes import Processes
from segue.system.services import Services
from segue.view.run import FOLDED, RunView

_CUT_OFF = (RunState.RUNNING, RunState.PARKED, RunState.STOPPED)
"""States in which a run whose tasks are all done may still have to record its end."""


class Parts(Struct, frozen=True):
    """The filled sockets that a run needs before it has a row of its own."""

    services: Services
    agents: dict[Role, AgentChain]
    reviewing: Reviewing | None
    judging: Judging | None
    building: Building | None

    @property
    def cloud(self) -> bool:
        """Whether the agents that edit work elsewhere."""
        return self.agents[Role.EXECUTE][0].agent.can.cloud

    @property
    def unstoppable(self) -> list[str]:
        """The agents that keep working when Segue stops."""
        agents = (chosen.agent for chain in self.agents.values() for chosen in chain)
        return sorted({agent.name for agent in agents if agent.can.unstoppable})


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
        """Whether it is certainly the first session of its source: each run of a fleet has its own."""
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


@asynccontextmanager
async def open_run(
    app: App,
    named: str | None,
    only: tuple[str, ...] = (),
    start: str | None = None,
    kind: str | None = None,
    *,
    restart: bool = False,
    units: Units = ALL,
) -> AsyncIterator[OpenRun | None]:
    """Check everything, lock the repository, find or create the run; None when there is nothing to do.

    With `restart` all tasks are pending again.
    """
    home = await _find_home(app, app.source(named, app.repo, kind))
    await home.recover(time.time())
    source = app.source(named, home.root, kind)
    exclude_state_files(home, source)
    with app.store(read_only=True) as known:
        last = _last(known, source.key)
        run = _unfinished(last)
        if run is not None:
            _refuse_changed_settings(app, run)
        past = await settle_start(app, known, home, source, last, restart)
    plan = plan_run(app, source, only, start, units)
    if plan.is_planned and not plan.pending and not (run and run.state in _CUT_OFF):
        if app.tell is not None:
            # Nothing begins, so the notices of the source are in no journal.
            for said in (past.restored, *(notice.show(source.address) for notice in plan.listing.notices)):
                if said:
                    app.tell(said)
        yield None
        return
    said_first = check_preconditions(app.loaded.settings, source) if run is None else []
    parts, warnings = await build_parts(plan, home)
    warnings += said_first
    spec, said = await _choose_place(plan, parts, home, last)
    spec, aimed = await aim(app, parts.services, home, spec)
    opener = _open_apart if spec.worktree else _open_in_place
    with app.store() as store:
        async with opener(plan, parts, store, home, spec, run) as opened:
            words = "\n".join(filter(None, (*warnings, said, aimed, opened.warning)))
            yield replace(opened, warning=words, past=past, store=store)


@asynccontextmanager
async def reopen_run(app: App, run: Run, feedback: tuple[FeedbackItem, ...] = ()) -> AsyncIterator[OpenRun]:
    """Open a run that exists, with the settings it was started with; `feedback` is more work for it."""
    with app.store(read_only=True) as known:
        refuse_absent(known, run)
    home = await Repository.open(Path(run.spec.repo))
    source = app.source(run.spec.source, home.root, run.spec.source_kind)
    with app.store(read_only=True) as known:
        past = await settle_resume(app, known, home, source, run)
    plan = replan_run(app, source, run)
    parts, warnings = await build_parts(plan, home)
    await aim(app, parts.services, home, run.spec)
    with app.store(read_only=True) as known:
        tree, repo, words = await _enter(known, home, run, source)
        words = "" if run.state is RunState.DONE else words  # its work tree was removed when it was done
    with lock_repository(repo, run.id) as lock:
        exclude_state_files(home, source, repo)
        warning = "\n".join(filter(None, (*warnings, words)))
        await repo.recover(run.created / 1000)
        yield OpenRun(plan, parts, run, run.spec, repo, lock, False, warning, tree, past, feedback)


async def _find_home(app: App, source: Source) -> Repository:
    """Open the repository; one for a sentence is made. A wrong source is named before a wrong repository."""
    if source.outline is not None:
        await new_repository(app.repo)
    try:
        return await Repository.open(app.repo)
    except WorkspaceError:
        source.look()
        raise


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


async def build_parts(plan: RunPlan, repo: Repository) -> tuple[Parts, list[str]]:
    """Build every part that must be able to work before anything is started, and say what is left out."""
    app, settings = plan.app, plan.app.loaded.settings
    services = app.services(Processes(), repo.root)
    _ = services.isolation.chosen  # a sandbox that is wanted and missing is said before anything starts
    chains, said = drop_unready(make_chains(plan.chains, app.loaded, services))
    check_chains(chains, settings.limits.budget())
    cloud = chains[Role.EXECUTE][0].agent.can.cloud
    reviewing = make_reviewing(app, services, cloud) if plan.flow.has("review") else None
    if settings.flow and plan.flow.has("review") and not (reviewing or settings.review.reviewer or cloud):
        said.append("Nobody reviews: stet is not ready here. Name another reviewer: --review NAME")
    judging = make_judging(judges_of(plan.judge), app, services) if plan.judge else None
    check_programs(app)
    if plan.agent_judges_by_default:
        key = settings.judge.api_key_env
        said.append(f"The agent also judges: {key} is not set, so no model can. Another judge: --judge NAME")
    building = make_building(app, plan.source.outline, services)
    if cloud and await repo.remote_url() is None:
        raise WorkspaceError(
            f"{repo.root} has no remote called origin, but {plan.agent} works on a remote repository.",
            hint="git remote add origin https://github.com/OWNER/REPO",
        )
    return Parts(services, chains, reviewing, judging, building), said


async def _choose_place(
    plan: RunPlan, parts: Parts, home: Repository, last: Run | None
) -> tuple[RunSpec, str]:
    """Return where the run works: where it began, else where the settings want it; with what to say."""
    run, app = _unfinished(last), plan.app
    settings = app.loaded.settings
    spec, wanted = plan.spec(home.root, run), settings.worktree or settings.delivery is not None
    if settings.base and not parts.cloud and settings.delivery is None:
        raise UsageError(
            f"base (from {app.loaded.where('base')}) has no effect: {plan.agent} works in your work tree.",
            hint="Switch to that branch, or leave it out",
        )
    lanes = settings.jobs > 1
    if run is not None:
        stays = wanted and run.spec.worktree is None and not parts.cloud
        said = f"Run {run.id} began in your own work tree and continues there." if stays else ""
        if lanes and not run.spec.lanes:
            said = f"Run {run.id} began with one task at a time and continues so."
        spec = replace(
            spec,
            worktree=run.spec.worktree,
            lanes=run.spec.lanes,
            onto=run.spec.onto,
            base=run.spec.base,
            into=run.spec.into,
            remote=run.spec.remote,
        )
        return (await _choose_base(plan, home, spec, last)) if settings.base and parts.cloud else (spec, said)
    spec = replace(spec, lanes=lanes)
    if parts.cloud:
        for name in ("worktree", "allow_dirty"):
            if getattr(settings, name) and (name == "worktree" or app.loaded.origin(name) == "command line"):
                raise UsageError(
                    f"{name} has no effect: {plan.agent} never touches your work tree.", hint="Leave it out"
                )
        return await _choose_base(plan, home, spec, last)
    if not (wanted or lanes):
        return spec, await _elsewhere(home, last)
    now = await home.snapshot()
    if not now.head:
        raise no_commit(home)
    if not wanted:
        check_clean(now, settings.allow_dirty)
    spec = replace(spec, worktree=str(app.state_dir.absolute() / "worktrees"), onto=now.branch)
    names = ", ".join(now.files[:5]) + (" …" if len(now.files) > 5 else "")
    return spec, f"Your uncommitted changes are not part of the run: {names}" if now.dirty else ""


async def _choose_base(
    plan: RunPlan, home: Repository, spec: RunSpec, last: Run | None
) -> tuple[RunSpec, str]:
    """Return the spec with the branch that cloud agents start from, and what to say about it."""
    from segue.runtime.base import choose_base

    before = None
    if last is not None and last.spec.base:
        with plan.app.store(read_only=True) as known:
            before = RunView.of({}, known.events(last.id, kinds=FOLDED)).branch
    base, warning = await choose_base(plan.app, home, plan.source, before)
    return replace(spec, base=base), warning


async def _elsewhere(home: Repository, last: Run | None) -> str:
    """Warn when the work of the last run is on a branch that this run does not see."""
    if last is None or last.spec.worktree is None or not await unmerged(home, branch_of(last.id)):
        return ""
    branch = branch_of(last.id)
    return f"The work of run {last.id} is not here but on branch {branch}. Merge it with: git merge {branch}"


@asynccontextmanager
async def _open_in_place(
    plan: RunPlan, parts: Parts, store: Store, home: Repository, spec: RunSpec, run: Run | None
) -> AsyncIterator[OpenRun]:
    """Lock the user's own work tree."""
    with lock_repository(home, run.id if run else "") as lock:
        fresh = run is None
        if run is None:
            if not parts.cloud:
                check_clean(await home.snapshot(), plan.app.loaded.settings.allow_dirty)
            run = store.create(plan.source.key, spec)
            lock.sign(run.id)
        else:
            await home.recover(run.created / 1000)
        yield OpenRun(plan, parts, run, spec, home, lock, fresh)


@asynccontextmanager
async def _open_apart(
    plan: RunPlan, parts: Parts, store: Store, home: Repository, spec: RunSpec, run: Run | None
) -> AsyncIterator[OpenRun]:
    """Make or find a work tree of the run's own; the same source is one run, also when two start at once."""
    assert spec.worktree is not None
    source = plan.source
    with ExitStack() as held:
        with exclusive(private_folder(Path(spec.worktree)) / f"{source.key}.lock"):
            run = run or _unfinished(_last(store, source.key))
            fresh = run is None
            run = run or store.create(source.key, spec)
            tree, repo, said = await _enter(store, home, run, source)
            lock = held.enter_context(lock_repository(repo, run.id))
            await repo.recover(run.created / 1000)
        exclude_state_files(home, source, repo)
        spec = replace(spec, worktree=run.spec.worktree, lanes=run.spec.lanes, onto=run.spec.onto)
        yield OpenRun(plan, parts, run, spec, repo, lock, fresh, said, tree=tree)


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


def exclude_state_files(home: Repository, source: Source, place: Repository | None = None) -> None:
    """Keep the files that Segue itself writes, and the project's settings, out of the evidence.

    No agent may change the settings, so a segue.toml that is not committed yet is no reason to refuse a run.
    In a work tree of the run's own, `place`, the same files are left out: yours are the ones that count.
    """
    settings = home.root.resolve() / SETTINGS
    own = [*source.own_files, *source.kept_out] if source.own_files else []
    if kept_out := [*own, *([settings] if settings.is_file() else [])]:
        home.keep_out(kept_out)
        for folder in {path.parent for path in source.own_files}:
            clear_temporary(folder)
    if place is not None:
        place.own = home.own


@contextlib.contextmanager
def lock_repository(repo: Repository, run: str) -> Iterator[RepoLock]:
    """Admit one run at a time to a work tree."""
    lock = RepoLock.take(repo.git_dir, run)
    try:
        yield lock
    finally:
        lock.release()


def _last(store: Store, key: str) -> Run | None:
    return next(iter(store.runs(source_key=key, limit=1)), None)


def _unfinished(last: Run | None) -> Run | None:
    return last if last and last.state is not RunState.DONE else None
