"""What happens before a run begins: everything a user could have got wrong is checked here."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from segue.app import AnySource, App, make_agent, make_reviewing, make_verifying
from segue.domain.errors import UsageError, WorkspaceError
from segue.domain.run import Run, RunSpec, RunState
from segue.domain.task import TaskList
from segue.flow.start import check_caps, check_clean, pending, raise_problems, select
from segue.ports import Agent, Store
from segue.sources import planstate
from segue.sources.planfile import PlanFile
from segue.system.git import Repository
from segue.system.lock import RepoLock
from segue.system.process import Processes
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
    source: AnySource
    lock: RepoLock
    fresh: bool
    warning: str = ""


@asynccontextmanager
async def prepared(
    app: App, named: str | None, only: Sequence[str] = (), start: str | None = None
) -> AsyncIterator[Prepared | None]:
    """Check everything, take the repository, find or create the run; None when there is nothing to do."""
    app.source(named, app.repo).look()
    repo = await Repository.open(app.repo)
    source = app.source(named, repo.root)
    keep_score(repo, source)
    _check_source(source, app.loaded.settings.plan_changed)
    listing = source.tasks()
    chosen = select(listing, only, start)
    with app.store(read_only=True) as known:
        run = _unfinished(known, source.key)
    if not pending(listing, chosen) and not (run and run.state in _CUT_OFF):
        yield None
        return
    spec = _spec(app, source, repo, chosen, _titles(listing, chosen, run))
    agent = await _checked_parts(app, spec, repo)
    with app.store() as store, _locked(repo, run.id if run else "") as lock:
        fresh = run is None
        if run is None:
            if not agent.can.cloud:
                check_clean(await repo.snapshot(), app.loaded.settings.allow_dirty)
            run = store.create(source.key, spec)
            lock.sign(run.id)
        yield Prepared(app, run, spec, repo, source, lock, fresh)


def keep_score(repo: Repository, source: AnySource) -> None:
    """Ticks and state of a feature lie in the work tree; they are ours, not evidence of an agent's work."""
    if not isinstance(source, PlanFile):
        repo.keep_out([source.path, source.state_path])


def _titles(listing: TaskList, chosen: Sequence[str], run: Run | None) -> dict[str, str]:
    """What the run is about: the pending tasks, and those it has done before, in the source's order."""
    wanted = {task.key for task in pending(listing, chosen)}.union(run.spec.titles if run else ())
    return {task.key: task.title for task in listing.tasks if task.key in wanted}


@asynccontextmanager
async def reopened(app: App, run: Run) -> AsyncIterator[Prepared]:
    """Prepare a run that exists, with the settings it was started with."""
    repo = await Repository.open(Path(run.spec.repo))
    await _checked_parts(app, run.spec, repo)
    with _locked(repo, run.id) as lock:
        source = app.source(run.spec.source, repo.root)
        keep_score(repo, source)
        warning = _mended(source)
        _check_source(source, app.loaded.settings.plan_changed)
        yield Prepared(app, run, run.spec, repo, source, lock, fresh=False, warning=warning)


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


async def _checked_parts(app: App, spec: RunSpec, repo: Repository) -> Agent:
    """Agent, caps, reviewer and judge must be able to work before anything is started."""
    agent = make_agent(spec.agent, app.loaded, Processes(app.state_dir), Redactor([]))
    raise_problems(agent.check())
    check_caps(app.loaded.settings.limits.budget(), agent.can, spec.agent)
    make_reviewing(app, spec.flow, repo.root, agent.can.cloud)
    make_verifying(app, spec.flow, _never)
    if agent.can.cloud and await repo.remote_url() is None:
        raise WorkspaceError(
            f"{repo.root} has no remote called origin, but {spec.agent} works on a remote repository.",
            hint="git remote add origin https://github.com/OWNER/REPO",
        )
    return agent


async def _never(argv: Sequence[str], folder: Path) -> tuple[int | None, str]:
    raise AssertionError(f"{argv} is not run in {folder} while a run is prepared")


def _spec(
    app: App, source: AnySource, repo: Repository, chosen: tuple[str, ...], titles: dict[str, str]
) -> RunSpec:
    place = source.path if isinstance(source, PlanFile) else source.folder
    return RunSpec(
        source_kind=source.kind,
        source=str(place),
        repo=str(repo.root),
        agent=app.agent_name(),
        flow=app.flow_name(source.kind),
        model=app.loaded.settings.model,
        tasks=chosen,
        titles=titles,
        config=str(app.config) if app.config else None,
        settings=app.loaded.overrides,
    )


def _unfinished(store: Store, key: str) -> Run | None:
    runs = store.runs(source_key=key, limit=1)
    return runs[0] if runs and runs[0].state is not RunState.DONE else None
