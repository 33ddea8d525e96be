"""The checks behind `segue doctor` and `segue agent list`: what works here, and how to fix the rest."""

from __future__ import annotations

import asyncio
import platform
import shutil
import sqlite3
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from msgspec import Struct
from msgspec.structs import asdict, replace

from segue.config.trust import trust_command
from segue.domain.errors import SegueError, ToolMissing
from segue.domain.proof import Seal
from segue.ports import Agent, Installation, Problem
from segue.proof.seal import choose_means, seal_strength
from segue.runtime.app import App
from segue.runtime.behaviour import known_behaviour, see_behaviour
from segue.runtime.plan import has_model_judge
from segue.runtime.suggested_check import suggest_check
from segue.runtime.wiring import agent_names, check_programs, make_agent
from segue.store.address import is_postgres, masked
from segue.system.git.looking import look
from segue.system.isolation.isolate import MOUNTING, Means
from segue.system.process.container import containment
from segue.system.process.processes import Processes
from segue.system.reading import work_tree
from segue.system.services import Services


class AgentReport(Struct, frozen=True):
    """One agent on this machine: location, version, login, capabilities and problems."""

    name: str
    ready: bool
    program: str | None
    version: str | None
    login: str | None
    can: tuple[str, ...]
    problems: tuple[str, ...]
    fix: str
    exit_code: int
    behaviour: str = ""
    """How this version was seen to behave."""

    @property
    def summary(self) -> str:
        """Everything known about the agent, on one line."""
        known = ("; ".join(self.problems), self.version, self.login, self.program)
        return " · ".join(filter(None, known)) or "ready"


class HealthCheck(Struct, frozen=True):
    """The result of checking one thing that a run needs."""

    what: str
    ok: bool
    detail: str
    fix: str = ""
    needed: bool = True
    exit_code: int = 1
    agent: AgentReport | None = None


async def examine(app: App) -> list[HealthCheck]:
    """Check everything a run needs."""
    agents = [await _observe(app, report) for report in await asyncio.to_thread(agent_reports, app)]
    chosen = app.loaded.settings.agent
    sealed = await asyncio.to_thread(_seal, app)
    means = await asyncio.to_thread(_isolation, app)
    found = [_python(), _git(), await _repository(app), _trust(app), _database(app), *means, sealed]
    found += [_containment(), _checks(app), _judge(app)]
    return [*found, *(_agent(report, report.name == chosen) for report in agents)]


def agent_reports(app: App, names: Sequence[str] = ()) -> list[AgentReport]:
    """Examine these agents, or all, concurrently: each may start a program or two."""
    names = names or agent_names(app.loaded)
    services = app.services(Processes(app.state_dir))
    with ThreadPoolExecutor(len(names)) as threads:
        return list(threads.map(lambda name: _report(app, name, services), names))


def _report(app: App, name: str, services: Services) -> AgentReport:
    agent: Agent | None = None
    try:
        agent = make_agent(name, app.loaded, services)
        problems = agent.check()
    except SegueError as error:
        problems = [Problem(error.message, error.hint, error.exit_code)]
    found = agent.installation() if agent else Installation()
    seen = known_behaviour(app, name, found.program)
    return AgentReport(
        name=name,
        ready=not problems,
        program=found.program,
        version=found.version,
        login=found.login,
        can=tuple(ability for ability, has in asdict(agent.can).items() if has) if agent else (),
        problems=tuple(problem.message for problem in problems),
        fix=problems[0].fix if problems else "",
        exit_code=problems[0].exit_code if problems else 0,
        behaviour=seen.summary if seen else "",
    )


async def _observe(app: App, report: AgentReport) -> AgentReport:
    """Add how the agent behaves, which is tried out once per version."""
    if not report.ready and report.version is None:
        return report
    seen = await see_behaviour(app, report.name, report.program)
    return replace(report, behaviour=seen.summary) if seen else report


def _python() -> HealthCheck:
    return HealthCheck(
        "Python", sys.version_info >= (3, 11), platform.python_version(), "Segue needs Python 3.11+"
    )


def _git() -> HealthCheck:
    found = shutil.which("git")
    fix = "Install git: https://git-scm.com/downloads"
    return HealthCheck("git", bool(found), found or "not found on PATH", fix, exit_code=5)


async def _repository(app: App) -> HealthCheck:
    try:
        repo, now = await look(app.repo)
    except SegueError as error:
        return HealthCheck("repository", False, error.message, error.hint, needed=False)
    branch = now.branch or "detached"
    if now.dirty and set(now.files) != {"segue.toml"}:
        fix = "Commit or stash before a run, or use --allow-dirty"
        return HealthCheck(
            "repository", False, f"{repo.root} ({branch}, uncommitted changes)", fix, needed=False
        )
    return HealthCheck("repository", True, f"{repo.root} ({branch}, clean)")


def _trust(app: App) -> HealthCheck:
    """Say whether the settings of the project are in force."""
    project, refused = app.loaded.project, app.loaded.found.refused
    if refused is not None:
        detail = f"{refused} belongs to another user, so its settings do not count"
        return HealthCheck("trust", False, detail, "Make it yours (chown), or use --config")
    if project is None:
        return HealthCheck("trust", True, "the project has no settings of its own")
    if not project.is_trusted:
        return HealthCheck("trust", False, project.describe(), trust_command(project.path), exit_code=2)
    detail = "trusted" if project.powerful else "has no settings that need it"
    return HealthCheck("trust", True, f"{project.path}: {detail}")


def _database(app: App) -> HealthCheck:
    where = masked(app.database())
    try:
        with app.store() as store:
            version = store.version()
    except SegueError as error:
        return HealthCheck("database", False, error.message, error.hint)
    engine = "Postgres" if is_postgres(where) else f"SQLite {sqlite3.sqlite_version}"
    return HealthCheck("database", True, f"{where} ({engine}, version {version})")


def _isolation(app: App) -> list[HealthCheck]:
    """Try out every means that isolates agents, and say which one a run here would have."""
    isolation, named = app.isolation(), app.loaded.settings.sandbox.image
    rows = []
    for means in (*MOUNTING, Means.LANDLOCK, *([Means.CONTAINER] if named else [])):
        found = isolation.try_means(means, again=True)
        works = found.means is not Means.NONE
        detail = "; ".join(filter(None, ("works" if works else "", found.why)))
        rows.append(HealthCheck(f"sandbox {means}", works, detail, found.fix, needed=False))
    try:
        chosen, said = isolation.chosen, isolation.sentence
    except ToolMissing as error:
        problem = HealthCheck("isolation", False, error.message, error.hint, exit_code=error.exit_code)
        return [problem, *rows]
    is_wanted = app.loaded.settings.isolation == "none" or chosen.means is not Means.NONE
    return [HealthCheck("isolation", is_wanted, said, chosen.fix, needed=False), *rows]


def _seal(app: App) -> HealthCheck:
    """Say how well checks can be kept out of an agent's reach here."""
    strength, why = seal_strength(choose_means(app.isolation()))
    fix = "Install bubblewrap, e.g. apt install bubblewrap" if sys.platform.startswith("linux") else ""
    detail = f"{strength}: {why}" if why else strength.value
    return HealthCheck("sealed checks", strength is Seal.SEALED, detail, fix, needed=False)


def _containment() -> HealthCheck:
    """Say what keeps processes of an agent from outliving it here."""
    strength, better = containment()
    return HealthCheck("containment", not better, strength, better, needed=False)


def _checks(app: App) -> HealthCheck:
    """Say which commands check the work, or which one would fit the project."""
    commands = app.loaded.settings.checks
    if not commands:
        suggested = suggest_check(work_tree(app.repo))
        fits = f"{suggested.command} would fit ({suggested.why})" if suggested else "none was found"
        command = suggested.command if suggested else "pytest -q"
        fix = f'Set checks = ["{command}"] in segue.toml, so that tasks are checked'
        return HealthCheck("checks", False, f"not set; {fits}", fix, needed=False)
    detail = ", ".join(" ".join(argv) for argv in commands)
    try:
        check_programs(app)
    except ToolMissing as error:
        return HealthCheck("checks", False, error.message, error.hint, exit_code=error.exit_code)
    return HealthCheck("checks", True, detail)


def _judge(app: App) -> HealthCheck:
    """Say who decides about acceptance criteria."""
    settings = app.loaded.settings
    if settings.judged_by:
        return HealthCheck("judge", True, f"{settings.judged_by} (from {app.loaded.where('judged_by')})")
    if has_model_judge(app):
        return HealthCheck("judge", True, f"the model {settings.judge.model}")
    detail = f"the agent that does the work: {settings.judge.api_key_env} is not set"
    return HealthCheck("judge", True, detail)


def _agent(report: AgentReport, needed: bool) -> HealthCheck:
    return HealthCheck(
        f"agent {report.name}",
        report.ready,
        report.summary,
        report.fix,
        needed=needed,
        exit_code=report.exit_code,
        agent=report,
    )
