"""What happens before a run begins: everything a user could have got wrong is checked here."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from segue.domain.errors import UsageError, WorkspaceError
from segue.domain.role import Role
from segue.domain.run import Run, RunSpec, RunState
from segue.domain.task import TaskList
from segue.flow.start import check_cast, check_clean, pending, select
from segue.ports import Store
from segue.runtime.parts import make_building, make_cast, make_reviewing, make_verifying, unready
from segue.runtime.wiring import AnySource, App
from segue.sources.plan import state as planstate
from segue.sources.plan.source import PlanFile
from segue.sources.prompt import PromptSource
from segue.system.files import exclusive, private_folder
from segue.system.git.repository import Repository, new_repository
from segue.system.git.worktree import Worktree, branch_of, no_commit, unmerged
from segue.system.lock import RepoLock
from segue.system.process.processes import Processes
from segue.system.redact import Redactor

_CUT_OFF = (RunState.RUNNING, RunState.PARKED, RunState.STOPPED)
"""States in which a run whose tasks are all done may still have its last words to write."""


class PlanChanged(UsageError):
    """Completed tasks of the plan were rewritten; the user must choose."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that may begin: everything a user could have got wrong has been checked."""

    app: App
    run: Run
    spec: RunSpec
    repo: Repository
    """The work tree that is worked in."""
    source: AnySource
    lock: RepoLock
    fresh: bool
    warning: str = ""
    without: tuple[str, ...] = ()
    """Agents that cannot work here; others play their roles."""
    tree: Worktree | None = None
    """The run's own work tree, if it has one."""


@asynccontextmanager
async def prepared(
    app: App, named: str | None, only: Sequence[str] = (), start: str | None = None
) -> AsyncIterator[Prepared | None]:
    """Check everything, take the repository, find or create the run; None when there is nothing to do."""
    found = app.source(named, app.repo)
    found.look()
    if found.kind == "prompt":
        await new_repository(app.repo)
    home = await Repository.open(app.repo)
    source = app.source(named, home.root)
    keep_score(home, source)
    _check_source(source, app.loaded.settings.plan_changed)
    listing = source.tasks()
    chosen = select(listing, only, start)
    with app.store(read_only=True) as known:
        last = _last(known, source.key)
        run = _unfinished(last)
    unplanned = isinstance(source, PromptSource) and not source.planned()
    if not unplanned and not pending(listing, chosen) and not (run and run.state in _CUT_OFF):
        yield None
        return
    spec = _spec(app, source, home, chosen, _titles(listing, chosen, run))
    cloud, without, warning = await _checked_parts(app, spec, home, source)
    spec, said = await _where(app, spec, home, last, cloud)
    with app.store() as store:
        taken = _apart if spec.worktree else _in_place
        async with taken(app, store, home, source, spec, run, cloud) as ready:
            words = "\n".join(filter(None, (warning, said, ready.warning)))
            yield replace(ready, warning=words, without=without)


async def _where(
    app: App, spec: RunSpec, home: Repository, last: Run | None, cloud: bool
) -> tuple[RunSpec, str]:
    """Where the run works: where it began, else where the settings want it; with what to say about that."""
    wanted, run = app.loaded.settings.worktree, _unfinished(last)
    if run is not None:
        stays = wanted and run.spec.worktree is None and not cloud
        said = f"Run {run.id} began in your own work tree and goes on there." if stays else ""
        return replace(spec, worktree=run.spec.worktree, onto=run.spec.onto), said
    if cloud:
        said = f"{spec.agent} never touches your work tree: --worktree changes nothing."
        return spec, said if wanted else ""
    if not wanted:
        return spec, await _elsewhere(home, last)
    now = await home.snapshot()
    if not now.head:
        raise no_commit(home)
    spec = replace(spec, worktree=str(app.state_dir.absolute() / "worktrees"), onto=now.branch)
    names = ", ".join(now.files[:5]) + (" …" if len(now.files) > 5 else "")
    return spec, f"Your uncommitted changes are not part of the run: {names}" if now.dirty else ""


async def _elsewhere(home: Repository, last: Run | None) -> str:
    """Warn when what was done before lies on a branch that this run does not see."""
    if last is None or last.spec.worktree is None or not await unmerged(home, branch_of(last.id)):
        return ""
    branch = branch_of(last.id)
    return f"What run {last.id} did is not here but on branch {branch}. Merge it with: git merge {branch}"


@asynccontextmanager
async def _in_place(
    app: App,
    store: Store,
    home: Repository,
    source: AnySource,
    spec: RunSpec,
    run: Run | None,
    cloud: bool,
) -> AsyncIterator[Prepared]:
    """Take the user's own work tree."""
    with _locked(home, run.id if run else "") as lock:
        fresh = run is None
        if run is None:
            if not cloud:
                check_clean(await home.snapshot(), app.loaded.settings.allow_dirty)
            run = store.create(source.key, spec)
            lock.sign(run.id)
        yield Prepared(app, run, spec, home, source, lock, fresh)


@asynccontextmanager
async def _apart(
    app: App,
    store: Store,
    home: Repository,
    source: AnySource,
    spec: RunSpec,
    run: Run | None,
    cloud: bool,  # noqa: ARG001 - cloud agents work in place
) -> AsyncIterator[Prepared]:
    """Take a work tree of the run's own; the same source is one run, also when two begin at once."""
    assert spec.worktree is not None
    with ExitStack() as held:
        with exclusive(private_folder(Path(spec.worktree)) / f"{source.key}.lock"):
            run = run or _unfinished(_last(store, source.key))
            fresh = run is None
            run = run or store.create(source.key, spec)
            tree, repo, said = await _entered(store, home, run, source)
            lock = held.enter_context(_locked(repo, run.id))
        keep_score(home, source, repo)
        spec = replace(spec, worktree=run.spec.worktree, onto=run.spec.onto)
        yield Prepared(app, run, spec, repo, source, lock, fresh, said, tree=tree)


async def _entered(
    store: Store, home: Repository, run: Run, source: AnySource
) -> tuple[Worktree | None, Repository, str]:
    """Open the work tree of a run: the user's, or its own, which builds on what was done before it."""
    tree = Worktree.of(home, run)
    if tree is None:
        return None, home, ""
    before = [branch_of(known.id) for known in store.runs(run.source_key, limit=2) if known.id != run.id]
    starts = [source.head_branch(), *before]
    repo, said = await tree.enter(begun=bool(store.steps(run.id)), starts=starts)
    return tree, repo, said


def keep_score(home: Repository, source: AnySource, place: Repository | None = None) -> None:
    """Ticks and state of a feature lie in the work tree; they are ours, not evidence of an agent's work.

    In a work tree of the run's own, `place`, the same files are left out: yours are the ones that count.
    """
    if not isinstance(source, PlanFile | PromptSource):
        home.keep_out([source.path, source.state_path])
    if place is not None:
        place.own = home.own


def _titles(listing: TaskList, chosen: Sequence[str], run: Run | None) -> dict[str, str]:
    """What the run is about: the pending tasks, and those it has done before, in the source's order."""
    wanted = {task.key for task in pending(listing, chosen)}.union(run.spec.titles if run else ())
    return {task.key: task.title for task in listing.tasks if task.key in wanted}


@asynccontextmanager
async def reopened(app: App, run: Run) -> AsyncIterator[Prepared]:
    """Prepare a run that exists, with the settings it was started with."""
    home = await Repository.open(Path(run.spec.repo))
    source = app.source(run.spec.source, home.root)
    _, without, warning = await _checked_parts(app, run.spec, home, source)
    with app.store(read_only=True) as known:
        tree, repo, said = await _entered(known, home, run, source)
    with _locked(repo, run.id) as lock:
        keep_score(home, source, repo)
        warning = "\n".join(filter(None, (_mended(source) or warning, said)))
        _check_source(source, app.loaded.settings.plan_changed)
        yield Prepared(app, run, run.spec, repo, source, lock, False, warning, without, tree)


def _check_source(source: AnySource, choice: str) -> None:
    """Tasks of a plan are known by their numbers: when completed ones changed, a person must choose."""
    if not isinstance(source, PlanFile):
        return
    changed = source.rewritten()
    if not changed or choice == "keep":
        return
    if choice == "restart":
        planstate.set_aside(source.state_path, "restarted")
        return
    state = source.state()
    before = (state.plan_hash or "")[:12] if state else ""
    raise PlanChanged(
        f"{source.path} has changed since its tasks were completed (it was {before}, it is now "
        f"{source.text_hash[:12]}): completed tasks {', '.join(changed)} say something else or are gone.",
        kept=f"What is done is in {source.state_path}; nothing was started.",
        hint="--plan-changed keep goes on with the pending tasks, --plan-changed restart begins anew",
    )


def _mended(source: AnySource) -> str:
    """`resume` without a usable state file: a feature stops, a plan starts again and says so."""
    if isinstance(source, PromptSource):
        return ""  # a plan that cannot be read has stopped us before
    if not isinstance(source, PlanFile):
        source.required_state()
        return ""
    try:
        source.state()
    except planstate.CorruptState as error:
        aside = planstate.set_aside(source.state_path)
        return f"{error.message} It was kept as {aside}; the plan starts from its first task."
    return ""


@contextlib.contextmanager
def _locked(repo: Repository, run: str) -> Iterator[RepoLock]:
    lock = RepoLock.take(repo.git_dir, run)
    try:
        yield lock
    finally:
        lock.release()


async def _checked_parts(
    app: App, spec: RunSpec, repo: Repository, source: AnySource
) -> tuple[bool, tuple[str, ...], str]:
    """Agents, caps, reviewer and judge must be able to work before anything is started.

    Returns whether the work is done in the cloud, which agents are left out, and what to say about that.
    """
    cast = make_cast(app, spec.agent, spec.flow, Processes(app.state_dir), Redactor([]))
    problems = unready(cast)
    check_cast(cast, app.loaded.settings.limits.budget())
    cloud = cast[Role.EXECUTE][0].agent.can.cloud
    make_reviewing(app, spec.flow, repo.root, cloud)
    make_verifying(app, spec.flow, _never, app.state_dir)
    make_building(app, spec.flow, source, _never)
    if cloud and await repo.remote_url() is None:
        raise WorkspaceError(
            f"{repo.root} has no remote called origin, but {spec.agent} works on a remote repository.",
            hint="git remote add origin https://github.com/OWNER/REPO",
        )
    said = [f"{name} is left out: {found[0].message} {found[0].fix}" for name, found in problems.items()]
    return cloud, tuple(problems), "\n".join(said)


async def _never(argv: Sequence[str], folder: Path) -> tuple[int | None, str]:
    raise AssertionError(f"{argv} is not run in {folder} while a run is prepared")


def _spec(
    app: App, source: AnySource, repo: Repository, chosen: tuple[str, ...], titles: dict[str, str]
) -> RunSpec:
    return RunSpec(
        source_kind=source.kind,
        source=_place(source),
        repo=str(repo.root),
        agent=app.agent_name(),
        flow=app.flow_name(source.kind),
        model=app.loaded.settings.model,
        tasks=chosen,
        titles=titles,
        config=str(app.config) if app.config else None,
        settings=app.loaded.overrides,
    )


def _place(source: AnySource) -> str:
    """What finds the source again: the path of a plan, the folder of a feature, or the prompt itself."""
    if isinstance(source, PromptSource):
        return source.goal
    return str(source.path if isinstance(source, PlanFile) else source.folder)


def _last(store: Store, key: str) -> Run | None:
    return next(iter(store.runs(source_key=key, limit=1)), None)


def _unfinished(last: Run | None) -> Run | None:
    return last if last and last.state is not RunState.DONE else None
