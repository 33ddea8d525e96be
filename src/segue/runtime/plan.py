"""From settings to a RunPlan: pure, and every mistake a user can make in the settings is found here."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from segue.config.settings import Settings
from segue.domain.errors import SourceError, UsageError
from segue.domain.graph import refuse_cycles
from segue.domain.job import AgentChoice, Role, read_chain
from segue.domain.run import Run, RunKind, RunSpec, TrialSpec
from segue.domain.task import Task, TaskKind, TaskList, TaskStatus
from segue.domain.text import plain
from segue.flow.agents import vendor_of
from segue.flow.context import Policy
from segue.flow.phase import PRESETS, Flow, make_flow
from segue.ports import Source
from segue.runtime import registry
from segue.runtime.app import App
from segue.runtime.delivery import check_delivery, read_heading
from segue.runtime.flows import choose_flow, roles_of
from segue.runtime.preconditions import check_proof
from segue.runtime.task_choice import ALL, TaskChoice, select_tasks
from segue.runtime.wiring import agent_kind, make_agent
from segue.system.git.folders import git_dirs, read_branch
from segue.system.process.processes import Processes

_MOST_NOTICES = 3
_TITLE = 100
NO_TASKS = "No pending tasks to process."
_RESOLUTIONS = {"planned": 5, "listed": 2}
"""How often a task is sent back when nothing else is set."""


class PlanChanged(UsageError):
    """Completed tasks of the source were rewritten; the user must choose."""


class RunPlan(Struct, frozen=True):
    """What a run is to do and with whom, before anything is opened."""

    app: App
    source: Source
    flow: Flow
    agent: str
    """The agents for everything that no role is named for, as they were written."""
    chains: Mapping[Role, tuple[AgentChoice, ...]]
    stronger: Mapping[TaskKind, tuple[AgentChoice, ...]]
    """Who takes over when the work is refused, by the kind of the task."""
    judge: str | None
    """Who judges, by name; None: nobody."""
    listing: TaskList
    chosen: tuple[str, ...] = ()
    """The tasks it is limited to; empty: all."""

    @property
    def pending(self) -> list[Task]:
        """The tasks that are still to be done."""
        return pending_tasks(self.listing, self.chosen)

    @property
    def is_planned(self) -> bool:
        """True if the tasks are known; False before an agent has planned them."""
        return self.source.outline is None or self.source.outline.is_planned()

    @property
    def policy(self) -> Policy:
        """What the flow may and must do."""
        settings = self.app.loaded.settings
        return Policy(
            commit=settings.commit,
            allow_no_change=settings.allow_no_change,
            escalate=settings.escalate,
            handover_bytes=settings.limits.handover_bytes,
            continue_after_failure=None if settings.on_failure is None else settings.on_failure == "continue",
            max_failures=settings.max_consecutive_task_failures,
            kinds=kind_rules(self.app),
            resolutions=most_resolutions(settings, planned=self.source.outline is not None),
            require=settings.require,
            independent=self.flow.has("independent"),
            exam_rounds=settings.proof.exam_rounds,
            exam_cost=settings.proof.exam_cost_usd,
            gates=settings.gates,
        )

    @property
    def _overrides(self) -> dict[str, Any]:
        """The settings that are stored, with the judge that was found: another process keeps it."""
        stored = self.app.loaded.overrides
        return {**stored, "judged_by": self.judge} if self.agent_judges_by_default else stored

    @property
    def agent_judges_by_default(self) -> bool:
        """True if the agent judges only because nobody else can."""
        settings, planned = self.app.loaded.settings, self.source.outline is not None
        return self.judge == "agent" and not (settings.judged_by or settings.roles.verify or planned)

    def spec(self, repo: Path, run: Run | None = None) -> RunSpec:
        """Return what is stored of the plan, so that another process can resume the run."""
        app = self.app
        wanted = {task.key for task in self.pending}.union(run.spec.titles if run else ())
        trial = _read_trial() or (run.spec.trial if run else None)
        return RunSpec(
            source_kind=self.source.kind,
            source=self.source.address,
            repo=str(repo),
            agent=self.agent,
            flow=self.flow.name,
            model=app.loaded.settings.model,
            tasks=self.chosen,
            titles={task.key: task.title for task in self.listing.tasks if task.key in wanted},
            config=str(app.config) if app.config else None,
            settings=self._overrides,
            kind=RunKind.TRIAL if trial else self.source.run_kind,
            phases=self.flow.names,
            trial=trial,
            title=name_work(self.source, self.listing),
            branch=read_branch(folders[0], {})[0] if (folders := git_dirs(repo)) else "",
        )


def name_work(source: Source, listing: TaskList) -> str:
    """Return what people call the work: its heading, else its first task; empty: its source says it."""
    if heading := read_heading(source):
        return plain(heading, _TITLE)
    if not listing.tasks or source.run_kind in (RunKind.FEATURE, RunKind.BUILD):
        return ""
    more = len(listing.tasks) - 1
    return plain(listing.tasks[0].title, _TITLE) + (f" and {more} more" if more else "")


def _read_trial() -> TrialSpec | None:
    """Return which trial of an experiment this process was started for."""
    text = os.environ.get("SEGUE_TRIAL")
    try:
        return msgspec.json.decode(text, type=TrialSpec) if text else None
    except msgspec.DecodeError:
        raise UsageError(
            "Environment variable SEGUE_TRIAL is set, but not by `segue experiment`.", hint="Unset it"
        ) from None


def plan_run(
    app: App, source: Source, chosen: TaskChoice = ALL, *, listing: TaskList | None = None
) -> RunPlan:
    """Plan a run of a source; raises UsageError for everything that does not fit together.

    Who only looks gives the `listing`: reading tasks for a run may repair what a crash left in their file.
    """
    check_rewritten(source, app.loaded.settings.plan_changed)
    return _plan_listed(app, source, source.tasks() if listing is None else listing, chosen)


def draft_run(app: App, source: Source, chosen: TaskChoice = ALL, listing: TaskList | None = None) -> RunPlan:
    """Plan a run from what the source shows: nothing is written, so the run may still be refused.

    Which tasks are done is known for certain once the source and the journal agree.
    """
    listing = listing or source.look()
    if listing.refusal is not None:
        raise listing.refusal
    return _plan_listed(app, source, listing, chosen)


def _plan_listed(app: App, source: Source, listing: TaskList, chosen: TaskChoice) -> RunPlan:
    if not listing.tasks and source.outline is None:
        why = " ".join(notice.text for notice in listing.notices[:_MOST_NOTICES])
        raise SourceError(
            f"There are no tasks in {source.title}. {why}".rstrip(),
            kept="Nothing was started.",
            hint="See: segue task list",
        )
    agent = agent_text(app)
    flow = find_flow(app, source)
    plan = _plan(app, source, flow, agent, listing, select_tasks(listing, chosen))
    _check_asked(plan)
    return plan


def replan_run(app: App, source: Source, run: Run, *, draft: bool = False) -> RunPlan:
    """Plan to continue a run with the flow and the agents it was started with; a draft writes nothing."""
    from segue.flow.phase import PHASES

    spec = run.spec
    known = {**PRESETS, **{name: flow.phases for name, flow in app.loaded.settings.flows.items()}}
    flow = make_flow(spec.flow, spec.phases or known.get(spec.flow, ()), PHASES)
    return _plan(app, source, flow, spec.agent, source.look() if draft else source.tasks(), spec.tasks)


def _plan(
    app: App, source: Source, flow: Flow, agent: str, listing: TaskList, chosen: tuple[str, ...]
) -> RunPlan:
    settings = app.loaded.settings
    _check_keys(source, listing)
    judge = judge_name(app, source, agent) if flow.has("verify") else None
    if judge is not None and settings.commit == "never":
        raise UsageError(
            'The judge looks at commits, but commit = "never".', hint='Set commit = "task" or "phase"'
        )
    check_delivery(settings)
    if settings.jobs > 1:
        _check_lanes(settings)
        waits = {task.key: task.depends_on for task in listing.tasks}
        refuse_cycles(waits, {task.key for task in pending_tasks(listing, chosen)})
    _check_names(settings, judge)
    if is_by_checks(judge) and not (settings.checks or settings.smoke):
        raise UsageError(
            f'judged_by = "{judge}", but there are no checks.', hint='Set checks = ["pytest -q"]'
        )
    check_proof(settings, flow, listing)
    roles = roles_of(flow, source.outline is not None, judge == "agent")
    chains = {role: choose_agents(app, role, agent) for role in roles}
    stronger = _choose_stronger(app, chains[Role.EXECUTE])
    return RunPlan(app, source, flow, agent, chains, stronger, judge, listing, chosen)


def _choose_stronger(app: App, workers: Sequence[AgentChoice]) -> dict[TaskKind, tuple[AgentChoice, ...]]:
    """Return who takes over when the work is refused, by the kind of the task."""
    settings = app.loaded.settings
    stronger = {
        TaskKind(kind): _read_agents(app, f"escalate_to.{kind}", text)
        for kind, text in settings.escalate_to.items()
    }
    if settings.escalate and len(workers) == 1 and not stronger:
        raise UsageError(
            f"escalate (from {app.loaded.where('escalate')}) has no effect: nobody comes after "
            f"{workers[0].name}.",
            hint="Name somebody stronger: --agent CHEAP,STRONG   or set [escalate_to]",
        )
    return stronger


def _check_asked(plan: RunPlan) -> None:
    """Refuse options of the command line that others make useless."""
    loaded, settings = plan.app.loaded, plan.app.loaded.settings
    models = {choice.model for chain in plan.chains.values() for choice in chain}
    idle = {
        "allow_dirty": "the run has a work tree of its own" * bool(settings.worktree or settings.delivery),
        "model": f"{plan.agent} names its own" * (settings.model not in models),
    }
    for path, reason in idle.items():
        if reason and getattr(settings, path) and loaded.origin(path) == "command line":
            raise UsageError(
                f"{path} (from {loaded.where(path)}) has no effect: {reason}.", hint="Leave it out"
            )


def _check_names(settings: Settings, judge: str | None) -> None:
    """Refuse parts that nobody has registered."""
    if judge is not None:
        registry.check_name("judges", judge, ["agent"])
    registry.check_name("reviewers", settings.review.reviewer or "none", ["none"])


def _check_keys(source: Source, listing: TaskList) -> None:
    """Refuse keys that would be taken for others: they are parts of the names of steps."""
    seen: set[str] = set()
    for task in listing.tasks:
        repeated = task.key in seen
        if repeated or not task.key or "/" in task.key:
            raise SourceError(
                f"A task of {source.title} has the key {task.key!r}{', as another one has' * repeated}.",
                kept="Nothing was started.",
                hint=f"Give every task a key of its own without slashes, in the source {source.kind!r}",
            )
        seen.add(task.key)


def _check_lanes(settings: Settings) -> None:
    """Refuse what cannot be with several tasks at once."""
    if settings.commit == "never":
        raise UsageError(
            f'{settings.jobs} tasks at once are merged as commits, but commit = "never".',
            hint='Set commit = "task", or work on one task at a time: --jobs 1',
        )
    if "task" in settings.gates:
        raise UsageError(
            f"jobs = {settings.jobs} has no effect: the gate `task` waits for you after each task.",
            hint='Leave --jobs out, or set gates = ["checkpoint"]',
        )


def most_resolutions(settings: Settings, planned: bool) -> int:
    """Return how often a task may be sent back; more often where an agent has planned it."""
    most = settings.limits.resolutions
    return _RESOLUTIONS["planned" if planned else "listed"] if most is None else most


def kind_rules(app: App) -> dict[str, TaskKind]:
    """Return the kinds that the user gave to tasks, by key or pattern."""
    return {pattern: TaskKind(kind) for pattern, kind in app.loaded.settings.kinds.items()}


def agent_text(app: App) -> str:
    """Return the agents that were chosen for everything that no role is named for."""
    settings = app.loaded.settings
    name = settings.agent or settings.roles.execute
    if name is None:
        raise UsageError(
            "No agent was chosen.",
            hint='Use --agent NAME or set agent = "NAME" in segue.toml; see `segue doctor --agents`',
        )
    return str(name)


def choose_agents(app: App, role: Role, default: str) -> tuple[AgentChoice, ...]:
    """Return who plays a role: the preferred agent first, then those to fall back on."""
    settings = app.loaded.settings
    instead = settings.roles.execute if role in (Role.ADDRESS, Role.TEST) else None
    text = getattr(settings.roles, role) or instead or default
    chain = _read_agents(app, f"The role {role}", text)
    if role is Role.TEST and settings.roles.test is None:
        return _choose_writers(app, chain)
    return chain


def _read_agents(app: App, where: str, text: str) -> tuple[AgentChoice, ...]:
    try:
        chain = read_chain(text, app.loaded.settings.model)
    except ValueError as error:
        raise UsageError(f"{where}: {error}.", hint="See: segue doctor --agents") from None
    for choice in chain:
        agent_kind(choice.agent, app.loaded)
    return chain


def _choose_writers(app: App, workers: tuple[AgentChoice, ...]) -> tuple[AgentChoice, ...]:
    """Return who writes tests if nobody was named: preferably somebody of another vendor than the worker.

    Whoever the settings name for anything, or configure, may; not one that works elsewhere, and none that
    has no vendor.
    """
    settings = app.loaded.settings
    texts = [settings.agent, *(getattr(settings.roles, role) for role in Role), *settings.agents]
    named = [choice for text in texts if text for choice in read_chain(text)]
    own = vendor_of(workers[0].agent)
    others = [one for one in (*workers[1:], *named) if vendor_of(one.agent) != own]
    foreign = [one for one in others if _writes_here(app, one.agent)]
    rest = [one for one in (*workers[1:], workers[0]) if one not in foreign]
    return (*dict.fromkeys(foreign), *rest)


def _writes_here(app: App, name: str) -> bool:
    """Return whether an agent is a vendor's and works on this machine."""
    if not getattr(agent_kind(name, app.loaded), "has_vendor", True):
        return False
    return not make_agent(name, app.loaded, app.services(Processes())).can.cloud


def judge_name(app: App, source: Source, agent: str) -> str:
    """Return who verifies: what was chosen, or what is there: a model with a key, else the agent."""
    settings = app.loaded.settings
    if settings.judged_by:
        return settings.judged_by
    if source.outline is not None or settings.roles.verify:
        return "agent"
    return "llm" if has_model_judge(app) or not _can_judge(app, agent) else "agent"


def _can_judge(app: App, agent: str) -> bool:
    """Return whether the agent has a mode in which it only answers, here."""
    name = choose_agents(app, Role.VERIFY, agent)[0].agent
    can = make_agent(name, app.loaded, app.services(Processes())).can
    return can.ask_mode and not can.cloud


def has_model_judge(app: App) -> bool:
    """Return whether a model can judge: the settings describe one, or the environment has its key."""
    settings, origins = app.loaded.settings, app.loaded.origins
    described = any(path.startswith("judge.") for path in origins)
    return described or bool(os.environ.get(settings.judge.api_key_env, "").strip())


def is_by_checks(judge: str | None) -> bool:
    """Return whether who judges looks at nothing but the checks."""
    return judge is not None and judge != "agent" and registry.says("judges", judge, "by_checks")


def find_flow(app: App, source: Source) -> Flow:
    """Return the flow that was chosen, or the one that source and agent are usually used with."""
    settings = app.loaded.settings
    usual = source.usual_flow
    if usual is None and (settings.agent or settings.roles.execute):
        first = choose_agents(app, Role.EXECUTE, agent_text(app))[0].agent
        usual = getattr(agent_kind(first, app.loaded), "usual_flow", None)
    usual = usual or "execute"
    reviews = settings.review.reviewer not in (None, "none")
    name = "review" if usual == "execute" and reviews else usual
    return choose_flow(app.loaded, name, planned=source.outline is not None)


def check_rewritten(source: Source, choice: str) -> None:
    """Tasks are known by their numbers: when completed ones changed, a person must choose."""
    changed = source.rewritten() if choice == "ask" else None
    if changed is not None:
        raise PlanChanged(
            changed.message,
            kept=changed.kept,
            hint="--plan-changed keep continues with the pending tasks, --plan-changed restart starts over",
        )


def pending_tasks(listing: TaskList, chosen: Sequence[str]) -> list[Task]:
    """Return the tasks that are still to be done."""
    wanted = set(chosen)
    return [t for t in listing.tasks if t.status is TaskStatus.PENDING and (not wanted or t.key in wanted)]
