"""Every reason not to start a run, found before anything is made; and the parts of one that can.

Cloud agents start on the pushed branch of the user: what is not there yet is named.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.errors import UsageError, WorkspaceError
from segue.domain.job import AgentChoice, Role
from segue.domain.outcome import Budget, Scope
from segue.domain.run import Run, RunSpec, RunState
from segue.domain.task import TaskKind
from segue.flow.agents import AgentChain
from segue.flow.budgets import path as budget_path
from segue.flow.context import Building, Judging, Reviewing
from segue.ports import Capabilities, Source
from segue.runtime.chain import choose_base
from segue.runtime.delivery import choose_target
from segue.runtime.plan import RunPlan
from segue.runtime.preconditions import (
    SETTINGS,
    check_clean,
    check_isolated,
    check_preconditions,
    introduce,
    refuse_filters,
)
from segue.runtime.wiring import (
    check_programs,
    drop_unready,
    make_building,
    make_chains,
    make_judging,
    make_reviewing,
    make_run_notifier,
)
from segue.system.files import clear_temporary
from segue.system.git.branches import REMOTE
from segue.system.git.repository import Repository
from segue.system.git.scratch import is_new_place, new_repository, undo_of, without_new_refs
from segue.system.git.worktree import branch_of, no_commit, unmerged
from segue.system.lock import RepoLock
from segue.system.process.processes import Processes
from segue.system.services import Services
from segue.view.run import FOLDED, RunView

Confirm = Callable[[], None]
"""Asks a person for the last word on a run that can start; raises if it is no."""
_PLACE = ("worktree", "lanes", "onto", "base", "into", "remote")


class Parts(Struct, frozen=True):
    """The filled sockets that a run needs before it has a row of its own."""

    services: Services
    agents: dict[Role, AgentChain]
    stronger: dict[TaskKind, AgentChain]
    reviewing: Reviewing | None
    judging: Judging | None
    building: Building | None

    @property
    def cloud(self) -> bool:
        """True if the agents that edit work elsewhere."""
        return self.agents[Role.EXECUTE][0].agent.can.cloud


class ReadyRun(Struct, frozen=True):
    """What a run needs to start, once nothing speaks against it."""

    parts: Parts
    spec: RunSpec
    run: Run | None
    """The run that continues; None: there will be a new one."""
    lock: RepoLock | None
    """That of the user's work tree, where the run works there."""
    words: list[str]


async def make_ready(
    plan: RunPlan, home: Repository, last: Run | None, held: ExitStack, undo: ExitStack, confirm: Confirm
) -> ReadyRun:
    """Find every reason not to start, then `confirm`. A new repository is made late; `undo` removes it."""
    app, run = plan.app, unfinished(last)
    if run is None:
        check_preconditions(app.loaded.settings, plan.source)
    parts, warnings = await build_parts(plan, home)
    app.check_writable()
    if plan.source.outline is not None and is_new_place(home.root):
        undo.callback(undo_of(home.root))
        await new_repository(home.root)
    else:
        await home.recover(time.time())
    async with without_new_refs(home, wanted=parts.cloud or app.loaded.settings.delivery is not None):
        spec, placed = await _choose_place(plan, parts, home, last)
        spec, aimed = await choose_target(app, parts.services, home, spec)
        clean = run is None and not parts.cloud and not app.loaded.settings.allow_dirty

        def settle() -> None:
            if not parts.cloud:
                check_isolated(app, parts.services.isolation)
            confirm()

        lock = await _lock(home, run, spec, clean, held, settle)
    return ReadyRun(parts, spec, run, lock, [*warnings, placed, aimed])


async def _lock(
    home: Repository, run: Run | None, spec: RunSpec, clean: bool, held: ExitStack, confirm: Confirm
) -> RepoLock | None:
    """Lock the user's work tree, if the run works there and it is clean; the file is made last."""
    await refuse_filters(home)
    if spec.worktree is not None:
        confirm()
        return None

    def take() -> RepoLock:
        return held.enter_context(lock_repository(home, run.id if run else ""))

    # Where another run may be at work, what it does is not to be called uncommitted.
    lock = take() if RepoLock.exists(home.git_dir) else None
    if clean:
        try:
            check_clean(await home.snapshot())
        except WorkspaceError as error:
            raise await introduce(error, home) from None
    confirm()
    return lock or take()


async def build_parts(plan: RunPlan, repo: Repository) -> tuple[Parts, list[str]]:
    """Build every part that must be able to work before anything is started, and say what is left out."""
    app, settings = plan.app, plan.app.loaded.settings
    services = app.services(Processes(), repo.root)
    _ = services.isolation.chosen  # a sandbox that is wanted and missing is said before anything starts
    named: dict[Role | TaskKind, Sequence[AgentChoice]] = dict(plan.chains.items())
    named |= plan.stronger.items()
    able, said = drop_unready(make_chains(named, app.loaded, services))
    chains = {role: chain for role, chain in able.items() if isinstance(role, Role)}
    stronger = {kind: chain for kind, chain in able.items() if isinstance(kind, TaskKind)}
    check_chains(chains, settings.limits.budgets(), stronger)
    cloud = chains[Role.EXECUTE][0].agent.can.cloud
    reviewing = make_reviewing(app, services, cloud) if plan.flow.has("review") else None
    if settings.flow and plan.flow.has("review") and not (reviewing or settings.review.reviewer or cloud):
        said.append("Nobody reviews: stet is not ready here. Name another reviewer: --review NAME")
    judging = make_judging(plan.judge, app, services) if plan.judge else None
    check_programs(app)
    make_run_notifier(app, None, said.append)  # one that cannot be made is a reason not to start
    if plan.agent_judges_by_default:
        key = settings.judge.api_key_env
        said.append(f"The agent also judges: {key} is not set, so no model can. Another judge: --judge NAME")
    building = make_building(app, plan.source.outline, services)
    if cloud and (not repo.git_dir.exists() or await repo.remote_url() is None):
        raise WorkspaceError(
            f"{repo.root} has no remote called origin, but {plan.agent} works on a remote repository.",
            hint="git remote add origin https://github.com/OWNER/REPO",
        )
    return Parts(services, chains, stronger, reviewing, judging, building), said


async def _choose_place(
    plan: RunPlan, parts: Parts, home: Repository, last: Run | None
) -> tuple[RunSpec, str]:
    """Return where the run works: where it began, else where the settings want it; with what to say."""
    run, app = unfinished(last), plan.app
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
        spec = at_place(spec, run.spec)
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
    if not (wanted or settings.allow_dirty):
        check_clean(now)
    spec = replace(spec, worktree=str(app.state_dir.absolute() / "worktrees"), onto=now.branch)
    names = ", ".join(now.files[:5]) + (" …" if len(now.files) > 5 else "")
    return spec, f"Your uncommitted changes are not part of the run: {names}" if now.dirty else ""


def at_place(spec: RunSpec, place: RunSpec) -> RunSpec:
    """Return a spec with the place of another one: where it works, and where its work goes."""
    return replace(spec, **{name: getattr(place, name) for name in _PLACE})


async def _choose_base(
    plan: RunPlan, home: Repository, spec: RunSpec, last: Run | None
) -> tuple[RunSpec, str]:
    """Return the spec with the branch that cloud agents start from, and what to say about it."""
    from segue.system.git.remotes import PushRemote

    before = None
    if last is not None and last.spec.base:
        with plan.app.store(read_only=True) as known:
            before = RunView.of({}, known.events(last.id, kinds=FOLDED)).branch
    base, warning = await choose_base(plan.app, home, plan.source, before)
    return replace(spec, base=base, remote=spec.remote or await PushRemote(home, REMOTE).address()), warning


async def _elsewhere(home: Repository, last: Run | None) -> str:
    """Warn when the work of the last run is on a branch that this run does not see."""
    if last is None or last.spec.worktree is None or not await unmerged(home, branch_of(last.id)):
        return ""
    branch = branch_of(last.id)
    return f"The work of run {last.id} is not here but on branch {branch}. Merge it with: git merge {branch}"


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


def unfinished(last: Run | None) -> Run | None:
    """Return the last run of a source, if the same command continues it."""
    return last if last and last.state is not RunState.DONE else None


def check_chains(
    chains: Mapping[Role, AgentChain],
    budgets: Mapping[Scope, Budget],
    stronger: Mapping[TaskKind, AgentChain],
) -> None:
    """Refuse agents that cannot work together."""
    editing = [one for role in (Role.EXECUTE, Role.ADDRESS, Role.PLAN) for one in chains.get(role, ())]
    editing += [one for chain in stronger.values() for one in chain]
    if len({chosen.agent.can.cloud for chosen in editing}) > 1:
        names = ", ".join(sorted({chosen.agent.name for chosen in editing}))
        raise UsageError(
            f"Cloud agents and local ones cannot take turns at the same work: {names}.",
            hint="Name agents of one kind for the roles plan, execute and address",
        )
    for chosen in chains.get(Role.PLAN, ()):
        if chosen.agent.can.cloud and not chosen.agent.can.plan_mode:
            raise UsageError(
                f"Agent {chosen.agent.name} cannot plan: it has no mode in which it changes nothing.",
                hint="Choose a flow without a plan, such as --flow execute, or another cloud agent",
            )
    for chosen in chains.get(Role.TEST, ()):
        if chosen.agent.can.cloud:
            raise UsageError(
                f"Agent {chosen.agent.name} cannot write independent tests: it works elsewhere.",
                hint="--agent test=NAME names one that works here",
            )
    for chosen in chains.get(Role.VERIFY, ()):
        if not chosen.agent.can.ask_mode:
            raise UsageError(
                f"Agent {chosen.agent.name} cannot judge: it has no mode in which it only answers.",
                hint='--agent verify=NAME names another one; judged_by = "llm" lets a model judge',
            )
    everybody = [*chains.values(), *stronger.values()]
    for agent in {one.agent.name: one.agent for chain in everybody for one in chain}.values():
        for scope, budget in budgets.items():
            check_caps(budget, agent.can, agent.name, budget_path(scope))


def check_caps(budget: Budget, can: Capabilities, name: str, path: str = "limits") -> None:
    """Refuse a cap that cannot be enforced."""
    if budget.tokens is not None and not can.reports_usage:
        raise UsageError(
            f"{path}.tokens cannot be enforced: agent {name} does not report tokens.",
            hint="Cap the launches instead: limits.launches",
        )
    if budget.cost_usd is not None and not can.reports_cost:
        raise UsageError(
            f"{path}.cost_usd cannot be enforced: agent {name} does not report cost.",
            hint="Cap the launches instead: limits.launches",
        )
