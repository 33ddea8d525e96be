"""What happens before a run begins: everything a user could have got wrong is checked here."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from segue.app import App, make_agent, make_reviewing
from segue.domain.errors import UsageError
from segue.domain.run import Run, RunSpec, RunState
from segue.domain.task import TaskList
from segue.flow.start import check_agent_ready, check_caps, check_clean, pending, select
from segue.ports import Store
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
    source: PlanFile
    lock: RepoLock
    fresh: bool
    warning: str = ""


@asynccontextmanager
async def prepared(
    app: App, source: Path, only: Sequence[str] = (), start: str | None = None
) -> AsyncIterator[Prepared | None]:
    """Check everything, take the repository, find or create the run; None when there is nothing to do."""
    app.planfile(source, app.repo).look()
    repo = await Repository.open(app.repo)
    plan = app.planfile(source, repo.root)
    _check_plan(plan, app.loaded.settings.plan_changed)
    listing = plan.tasks()
    chosen = select(listing, only, start)
    with app.store(read_only=True) as known:
        run = _unfinished(known, plan.key)
    if not pending(listing, chosen) and not (run and run.state in _CUT_OFF):
        yield None
        return
    spec = _spec(app, plan, repo, chosen, _titles(listing, chosen, run))
    _check_agent(app, spec.agent)
    make_reviewing(app, spec.flow, repo.root)
    with app.store() as store, _locked(repo, run.id if run else "") as lock:
        fresh = run is None
        if run is None:
            check_clean(await repo.snapshot(), app.loaded.settings.allow_dirty)
            run = store.create(plan.key, spec)
            lock.sign(run.id)
        yield Prepared(app, run, spec, repo, plan, lock, fresh)


def _titles(listing: TaskList, chosen: Sequence[str], run: Run | None) -> dict[str, str]:
    """What the run is about: the pending tasks, and those it has done before, in the plan's order."""
    wanted = {task.key for task in pending(listing, chosen)}.union(run.spec.titles if run else ())
    return {task.key: task.title for task in listing.tasks if task.key in wanted}


@asynccontextmanager
async def reopened(app: App, run: Run) -> AsyncIterator[Prepared]:
    """Prepare a run that exists, with the settings it was started with."""
    repo = await Repository.open(Path(run.spec.repo))
    _check_agent(app, run.spec.agent)
    make_reviewing(app, run.spec.flow, repo.root)
    with _locked(repo, run.id) as lock:
        plan = app.planfile(Path(run.spec.source), repo.root)
        warning = _mended(plan)
        _check_plan(plan, app.loaded.settings.plan_changed)
        yield Prepared(app, run, run.spec, repo, plan, lock, fresh=False, warning=warning)


def _check_plan(plan: PlanFile, choice: str) -> None:
    """Tasks are known by their numbers: when completed ones have other texts now, a person must choose."""
    changed = plan.rewritten()
    if not changed or choice == "keep":
        return
    if choice == "restart":
        planstate.set_aside(plan.state_path, "restarted")
        return
    state = plan.state()
    before = (state.plan_hash or "")[:12] if state else ""
    raise PlanChanged(
        f"{plan.path} has changed since its tasks were completed (it was {before}, it is now "
        f"{plan.text_hash[:12]}): completed tasks {', '.join(changed)} say something else or are gone.",
        kept=f"What is done is in {plan.state_path}; nothing was started.",
        hint="--plan-changed keep goes on with the pending tasks, --plan-changed restart begins anew",
    )


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
