"""The checks behind `segue doctor`: what works here, and how to fix the rest."""

from __future__ import annotations

import asyncio
import os
import platform
import sqlite3
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from shlex import join
from typing import Any

from msgspec import Struct, to_builtins
from msgspec.structs import asdict, replace

from segue.config.trust import trust_command
from segue.domain.amounts import format_count, list_some
from segue.domain.errors import CredentialsError, SegueError, ToolMissing
from segue.domain.proof import Seal
from segue.domain.workspace import Snapshot
from segue.ports import Agent, Capabilities, Installation, Problem
from segue.proof.seal import choose_means, seal_strength
from segue.runtime.app import App
from segue.runtime.first_run import suggest_check
from segue.runtime.plan import has_model_judge
from segue.runtime.preconditions import INTRODUCE, SETTINGS
from segue.runtime.readiness import (
    COMMIT,
    FoundWork,
    Readiness,
    find_dirty,
    find_work,
    judge_readiness,
)
from segue.runtime.wiring import agent_names, check_programs, make_agent
from segue.store.address import is_postgres, masked, sqlite_path
from segue.system.git.outside import NOT_A_REPOSITORY
from segue.system.git.repository import Repository, look
from segue.system.isolation.isolate import MOUNTING, Means
from segue.system.process.cgroup import containment
from segue.system.process.processes import Processes
from segue.system.programs import describe_missing, find, reach
from segue.system.reading import work_tree
from segue.system.services import Services

SANDBOX = "sandbox "
"""How what is checked of a means of isolation is called."""
_UNREAD = SegueError("The database cannot be read, so nobody knows what is done.")


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
    untold: tuple[str, ...] = ()
    """What nobody learns from it."""

    @property
    def summary(self) -> str:
        """Everything known about the agent, on one line."""
        unasked = "not asked: agents can write it" if self.program and reach().has(self.program) else ""
        known = (" ".join(self.problems), self.version, self.login, self.program, unasked)
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


class Diagnosis(Struct, frozen=True):
    """Everything that was looked at, and what follows from it: terminal, page and JSON show the same."""

    checks: tuple[HealthCheck, ...]
    verdict: Readiness

    @property
    def machine(self) -> list[HealthCheck]:
        """What is not about an agent; of the sandboxes, the one that is used and those that do not work."""
        others = [check for check in self.checks if check.agent is None]
        return [check for check in others if not (check.ok and check.what.startswith(SANDBOX))]

    @property
    def present(self) -> list[HealthCheck]:
        """The agents that are installed or chosen; the scripted one only rehearses."""
        agents = [check for check in self.checks if check.agent is not None]
        return [check for check in agents if check.needed or _is_present(check.agent)]

    @property
    def absent(self) -> str:
        """The other agents, in one line; empty if there are none."""
        shown = {check.what for check in self.present}
        others = [one.agent for one in self.checks if one.agent and one.what not in shown]
        groups = {
            "Not installed": [one.name for one in others if one.exit_code == ToolMissing.exit_code],
            "without a key": [one.name for one in others if one.exit_code == CredentialsError.exit_code],
        }
        line = "; ".join(f"{what}: {', '.join(names)}" for what, names in groups.items() if names)
        return line[:1].upper() + line[1:]

    def as_data(self) -> dict[str, Any]:
        """Return it as the answer of `segue doctor --json`."""
        verdict = self.verdict
        return {
            **to_builtins(verdict),
            "verdict": verdict.sentence,
            "checks": [to_builtins(check) for check in self.checks],
        }


def _is_present(report: AgentReport | None) -> bool:
    return report is not None and report.name != "scripted" and bool(report.ready or report.program)


async def examine(app: App) -> Diagnosis:
    """Check everything a run needs, and judge whether one could start."""
    agents = await asyncio.to_thread(agent_reports, app)
    chosen = str(app.loaded.settings.agent or app.loaded.settings.roles.execute or "")
    chain = [name.partition(":")[0].strip() for name in chosen.split(",")]
    away = any(report.name == chain[0] and "cloud" in report.can for report in agents)
    place = await _look(app)
    database = _database(app)
    work = await asyncio.to_thread(_find_work, app)
    sealed = await asyncio.to_thread(_seal, app)
    means = await asyncio.to_thread(_isolation, app)
    readable = work if database.ok else _UNREAD
    found = [_python(), _git(), await _repository(app, place, None if away else readable)]
    if not isinstance(place, SegueError):
        found.append(_identity(await place[0].author()))
    found += [_trust(app), database, _tasks(work), *means, sealed]
    found += [_containment(), _checks(app), _judge(app)]
    checks = [*found, *(_agent(_await_trust(app, report), report.name == chain[0]) for report in agents)]
    there = None if isinstance(place, SegueError) else place
    return Diagnosis(tuple(checks), await judge_readiness(app, checks, there, work, agents))


async def _look(app: App) -> tuple[Repository, Snapshot] | SegueError:
    try:
        return await look(app.repo)
    except SegueError as error:
        return error


def _find_work(app: App) -> FoundWork | SegueError:
    try:
        return find_work(app)
    except SegueError as error:
        return error


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
        untold=_find_untold(agent.can, found) if agent else (),
    )


def _find_untold(can: Capabilities, found: Installation) -> tuple[str, ...]:
    """Return what an agent does not tell: what launches use or cost, and how some of them ended."""
    cost = "" if can.reports_cost else "what it costs"
    return tuple(filter(None, (found.untold, cost if can.reports_usage else "what it uses and costs")))


def _python() -> HealthCheck:
    return HealthCheck(
        "Python", sys.version_info >= (3, 11), platform.python_version(), "Segue needs Python 3.11+"
    )


def _git() -> HealthCheck:
    found = find("git")
    fix = "Install git: https://git-scm.com/downloads"
    return HealthCheck("git", bool(found), found or describe_missing("git"), fix, exit_code=5)


async def _repository(
    app: App, place: tuple[Repository, Snapshot] | SegueError, work: FoundWork | SegueError | None
) -> HealthCheck:
    """Describe the repository; whether its changes matter depends on the work there. None: they never do."""
    if isinstance(place, SegueError):
        found = _failed("repository", place)
        missing = place.message.startswith(NOT_A_REPOSITORY) and app.repo.is_dir()
        return replace(found, fix=join(["git", "init", str(app.repo)])) if missing else found
    repo, now = place
    where = f"{repo.root} ({now.branch or 'detached'}, {{}})"
    if isinstance(work, FoundWork) and (dirty := await find_dirty(app, work, repo, now)) is not None:
        fix = dirty.hint if work.pending else ""
        return HealthCheck("repository", False, dirty.message, fix, needed=bool(work.pending), exit_code=2)
    if now.dirty and set(now.files) != {SETTINGS}:
        matters = isinstance(work, SegueError) and not app.loaded.settings.allow_dirty
        detail = where.format("uncommitted changes")
        return HealthCheck("repository", not matters, detail, COMMIT, needed=False)
    return HealthCheck("repository", True, where.format("clean" if now.head else "no commit yet"))


def _failed(what: str, error: SegueError, *, needed: bool = True) -> HealthCheck:
    return HealthCheck(what, False, error.message, error.hint, needed, error.exit_code)


def _identity(author: str) -> HealthCheck:
    """Say under which name Segue commits; it needs none of its own."""
    if author:
        return HealthCheck("git identity", True, author)
    detail = "none: Segue commits as Segue <segue@localhost>"
    return HealthCheck("git identity", False, detail, INTRODUCE, needed=False)


def _tasks(work: FoundWork | SegueError) -> HealthCheck:
    """Say what there is to do."""
    if isinstance(work, SegueError):
        return _failed("tasks", work, needed=False)
    count = format_count(len(work.listing.tasks), "task")
    others = f"; also here: {list_some([one.source for one in work.others], 5)}" if work.others else ""
    return HealthCheck("tasks", True, f"{work.source.title}: {count}, {work.pending} to do{others}")


def _trust(app: App) -> HealthCheck:
    """Say whether the settings of the project are in force."""
    project, refused = app.loaded.project, app.loaded.found.refused
    if refused is not None:
        detail = f"{refused} belongs to another user, so its settings do not count"
        return HealthCheck("trust", False, detail, "Make it yours (chown), or use --config", exit_code=2)
    if project is None:
        return HealthCheck("trust", True, "the project has no settings of its own")
    if not project.is_trusted:
        return HealthCheck(
            "trust", False, project.describe_briefly(), trust_command(project.path), exit_code=2
        )
    detail = "trusted" if project.powerful else "has no settings that need it"
    return HealthCheck("trust", True, f"{project.path}: {detail}")


def _database(app: App) -> HealthCheck:
    where = masked(app.database())
    engine = "Postgres" if is_postgres(where) else f"SQLite {sqlite3.sqlite_version}"
    path = None if is_postgres(where) else sqlite_path(app.database())
    if path is not None and not path.exists():
        above = next(folder for folder in path.absolute().parents if folder.exists())
        if not os.access(above, os.W_OK | os.X_OK):
            fix = "Make it writable, or name another place: --database-url FILE"
            return HealthCheck("database", False, f"{above} cannot be written", fix)
        return HealthCheck("database", True, f"{where} ({engine}, made by the first run)")
    try:
        with app.store(read_only=True) as store:
            version = store.version()
    except SegueError as error:
        return _failed("database", error)
    return HealthCheck("database", True, f"{where} ({engine}, version {version})")


def _isolation(app: App) -> list[HealthCheck]:
    """Try out every means that isolates agents, and say which one a run here would have."""
    isolation, named = app.isolation(), app.loaded.settings.sandbox.image
    rows = []
    for means in (*MOUNTING, Means.LANDLOCK, *([Means.CONTAINER] if named else [])):
        found = isolation.try_means(means, again=True)
        works = found.means is not Means.NONE
        detail = "; ".join(filter(None, ("works" if works else "", found.why)))
        rows.append(HealthCheck(f"{SANDBOX}{means}", works, detail, found.fix, needed=False))
    try:
        chosen, said = isolation.chosen, isolation.sentence
    except ToolMissing as error:
        problem = HealthCheck("isolation", False, error.message, error.hint, exit_code=error.exit_code)
        return [problem, *rows]
    is_wanted = app.loaded.settings.isolation == "none" or chosen.means is not Means.NONE
    if note := isolation.own_note:
        rows.append(HealthCheck("Segue itself", False, note, "docs/guides/installing.md", needed=False))
    return [HealthCheck("isolation", is_wanted, said, chosen.fix, needed=False), *rows]


def _seal(app: App) -> HealthCheck:
    """Say how well checks can be kept out of an agent's reach here."""
    strength, why = seal_strength(choose_means(app.isolation()))
    fix = "Install bubblewrap, e.g. apt install bubblewrap" if sys.platform.startswith("linux") else ""
    is_sealed = strength is Seal.SEALED
    detail = "out of the agent's reach" if is_sealed else ": ".join(filter(None, (strength, why)))
    return HealthCheck("sealed checks", is_sealed, detail, fix, needed=False)


def _containment() -> HealthCheck:
    """Say what keeps processes of an agent from outliving it here."""
    strength, better = containment()
    detail = f"an agent is ended with all it started, by {strength}"
    return HealthCheck("containment", not better, detail, better, needed=False)


def _checks(app: App) -> HealthCheck:
    """Say which commands check the work, or which one would fit the project."""
    commands = app.loaded.settings.checks
    project = app.loaded.project
    if project is not None and "checks" in project.held:
        detail = f"set in {project.path.name}, in force once you trust it"
        return HealthCheck("checks", False, detail, trust_command(project.path), needed=False)
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
    detail = f"the agent that does the work, or a model once {settings.judge.api_key_env} is set"
    return HealthCheck("judge", True, detail)


def _await_trust(app: App, report: AgentReport) -> AgentReport:
    """Return what is known of an agent; one whose settings nobody trusts yet lacks nothing but that."""
    project = app.loaded.project
    if project is None or not any(name.startswith(f"agents.{report.name}.") for name in project.held):
        return report
    problem = f"set up in {project.path.name}, in force once you trust it"
    return replace(report, ready=False, problems=(problem,), fix=trust_command(project.path), exit_code=2)


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
