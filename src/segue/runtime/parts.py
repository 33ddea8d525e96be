"""Fills the sockets of a run from the settings: who plays which role, who reviews, who judges, where."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from pathlib import Path

from segue.domain.errors import ToolMissing, UsageError
from segue.domain.finding import DismissReason, Finding
from segue.domain.role import ROLE_OF, Role
from segue.flow.context import (
    FLOWS,
    Building,
    Cast,
    Examine,
    Examined,
    Player,
    Reviewing,
    RunCheck,
    Verifying,
)
from segue.flow.start import raise_problems
from segue.ports import Agent, Judge, Problem, Reviewer, Workspace
from segue.reviewers.triage import at_least, triage
from segue.runtime.wiring import AnySource, App, make_agent, wrong_option
from segue.sources.plan.source import PlanFile
from segue.sources.prompt import PromptSource
from segue.system.git.branches import LocalBranches, RemoteBranches
from segue.system.git.repository import Repository
from segue.system.process.processes import Processes
from segue.system.redact import Redactor

_RESOLUTIONS = {"spec": 2, "build": 5}
"""How often a task is sent back when nothing else is set."""


def make_reviewing(app: App, flow: str, repo: Path, cloud: bool) -> Reviewing | None:
    """The reviewer that was asked for, or stet if it is there; None when nobody reviews."""
    settings = app.loaded.settings
    wanted = settings.review.reviewer
    if "review" not in FLOWS[flow] or wanted == "none" or (cloud and wanted is None):
        return None
    if cloud:
        raise UsageError(
            f"The reviewer {wanted} looks at the work tree here, but cloud agents work elsewhere.",
            hint="Leave --review out; checks run on the agent's branch: see checks in docs/judging.md",
        )
    reviewer = _make_reviewer(app, wanted or "stet", repo)
    problems = reviewer.check()
    if wanted is None and (problems or settings.commit == "never"):
        return None
    if problems:
        raise ToolMissing(problems[0].message, hint=problems[0].fix)
    if reviewer.needs_commit and settings.commit == "never":
        raise UsageError(
            f'The reviewer {wanted} sees commits only, but commit = "never".', hint='Set commit = "phase"'
        )
    review = settings.review

    def parted(findings: Sequence[Finding]) -> tuple[list[Finding], list[tuple[Finding, DismissReason]]]:
        sorted_out = triage(at_least(findings, review.min_severity), review.dismiss)
        return list(sorted_out.kept), list(sorted_out.dismissed)

    return Reviewing(
        reviewer, parted, review.max_address_rounds, review.on_findings_remaining, review.on_review_failure
    )


def _make_reviewer(app: App, name: str, repo: Path) -> Reviewer:
    from segue.domain.options import OptionError, read_options
    from segue.reviewers.command import CommandReviewer
    from segue.reviewers.options import PRESETS, CommandReviewOptions, StetOptions, preset
    from segue.reviewers.stet.reviewer import StetReviewer

    values, redactor = app.loaded.settings.reviewers.get(name, {}), app.redactor()
    try:
        if name == "stet":
            state = app.state_dir / "stet" / hashlib.sha256(str(repo).encode()).hexdigest()[:16]
            return StetReviewer(read_options(StetOptions, values), repo, redactor, state)
        if name == "command":
            return CommandReviewer(read_options(CommandReviewOptions, values), repo, redactor)
        if name in PRESETS:
            return CommandReviewer(preset(name, values), repo, redactor, name)
    except OptionError as error:
        raise wrong_option(error, f"reviewers.{name}", app.loaded, "See docs/reviewing.md") from None
    known = ", ".join(sorted({*PRESETS, "command", "none"}))
    raise UsageError(f"There is no reviewer {name!r}.", hint=f"Known reviewers: {known}")


def judged_by(app: App, flow: str) -> str:
    """Who verifies: what was chosen, or an agent where agents do everything, or a model."""
    settings = app.loaded.settings
    return settings.judged_by or ("agent" if flow == "build" or settings.roles.verify else "llm")


def make_verifying(app: App, flow: str, run_check: RunCheck, folder: Path) -> Verifying | None:
    """The judge of the flows that verify; raises what keeps it from working. Its own files go to `folder`."""
    if "verify" not in FLOWS[flow]:
        return None
    settings = app.loaded.settings
    if settings.commit == "never":
        raise UsageError(
            'The judge looks at commits, but commit = "never".', hint='Set commit = "task" or "phase"'
        )
    judge = _make_judge(app, flow)
    if judge is not None:
        raise_problems(judge.check())
    most = settings.limits.resolutions
    if most is None:
        most = _RESOLUTIONS["build" if flow == "build" else "spec"]
    examine = _examine_rls(app, folder) if flow == "build" and settings.rls.enabled != "off" else None
    return Verifying(
        judge,
        settings.checks,
        run_check,
        most,
        {str(phase): commands for phase, commands in settings.smoke.items()},
        examine,
    )


def _make_judge(app: App, flow: str) -> Judge | None:
    settings, kind = app.loaded.settings, judged_by(app, flow)
    if kind == "agent":
        return None
    if kind == "checks":
        from segue.judges.checks import ChecksJudge

        return ChecksJudge((*settings.checks, *(argv for more in settings.smoke.values() for argv in more)))
    from segue.judges.llm import LlmJudge

    allowed = settings.diagnostics.allow if flow == "build" else None
    return LlmJudge(settings.judge, app.redactor(), allowed)


def _examine_rls(app: App, folder: Path) -> Examine:
    """Tries out the row level security of a Supabase project."""

    async def examine(project: Path) -> Examined | None:
        if not (project / "supabase" / "migrations").is_dir():
            return None
        from segue.judges.rls import examine as examine_rls

        report = await examine_rls(project, app.loaded.settings.rls, folder)
        return None if report is None else Examined(report.as_check(), report.as_json(), report.decides)

    return examine


def make_building(app: App, flow: str, source: AnySource, run: RunCheck) -> Building | None:
    """What the flow that builds from one prompt uses beside the rest."""
    if flow != "build" or not isinstance(source, PromptSource):
        return None
    from segue.searchers.make import make_searcher

    settings = app.loaded.settings
    return Building(
        outline=source,
        searcher=make_searcher(settings.search, app.redactor()),
        diagnostics=tuple(settings.diagnostics.allow),
        run_diagnostic=run,
        replan=settings.replan,
        replans=settings.limits.replans,
    )


def make_cast(
    app: App, default: str, flow: str, processes: Processes, redactor: Redactor, without: Collection[str] = ()
) -> Cast:
    """Who plays each role that the flow needs; agents named in `without` are left out."""
    agents: dict[str, Agent] = {}
    cast: dict[Role, list[Player]] = {}
    for role in _roles(app, flow):
        cast[role] = []
        for part in app.parts(role, default):
            if part.agent in without:
                continue
            if part.agent not in agents:
                agents[part.agent] = make_agent(part.agent, app.loaded, processes, redactor)
            cast[role].append(Player(agents[part.agent], part.model))
    return cast


def _roles(app: App, flow: str) -> list[Role]:
    phases = list(FLOWS[flow])
    if "review" in phases:
        phases.append("address")
    if flow == "build" and app.loaded.settings.search.service is None:
        phases.append("search")
    if judged_by(app, flow) != "agent":
        phases = [phase for phase in phases if phase != "verify"]
    return sorted({ROLE_OF[phase] for phase in phases if phase in ROLE_OF})


def unready(cast: Cast) -> dict[str, list[Problem]]:
    """The agents that cannot work here, with what keeps them; raises when a role is left without anybody."""
    agents = {player.agent.name: player.agent for players in cast.values() for player in players}
    problems = {name: found for name, agent in agents.items() if (found := agent.check())}
    for players in cast.values():
        if all(player.agent.name in problems for player in players):
            raise_problems(problems[players[0].agent.name])
    return problems


def make_workspace(
    app: App, source: AnySource, cloud: bool, repo: Repository, apart: bool = False
) -> Workspace:
    """Where the work happens: on remote branches, on a local branch per task, or where the user stands.

    A run with a work tree of its own (`apart`) has a branch of its own there, for all its tasks.
    """
    if cloud:
        return RemoteBranches(repo, "origin", app.state_dir / "worktrees")
    if apart or isinstance(source, PlanFile | PromptSource):
        return repo
    return LocalBranches(repo, f"segue/{source.folder.name}")
