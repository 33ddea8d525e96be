"""The end of `segue doctor`: whether a run could start here, and the one command to type next."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.errors import CredentialsError, SegueError, ToolMissing, UsageError, WorkspaceError
from segue.domain.options import Commands
from segue.domain.task import TaskList, TaskStatus
from segue.domain.workspace import Snapshot
from segue.ports import Source
from segue.runtime.app import App
from segue.runtime.first_run import (
    FoundAgent,
    choose_ready,
    list_sources,
    name_from_here,
    needs_agent,
    needs_source,
    rank_agents,
    suggest_check,
)
from segue.runtime.plan import plan_run
from segue.runtime.preconditions import INTRODUCE, asks_for_sandbox, check_preconditions, refuse_dirty
from segue.runtime.ready import build_parts
from segue.runtime.sources import FoundSource
from segue.system.git.repository import Repository
from segue.system.git.worktree import no_commit
from segue.system.lock import refuse_holder
from segue.system.programs import find_inside
from segue.system.reading import work_tree

if TYPE_CHECKING:
    from segue.runtime.doctor import AgentReport, HealthCheck

COMMIT = 'git add --all && git commit -m "Work so far"'
NO_TASKS = "No plan, no feature and no other list of tasks was found"
HOW_TO_PLAN = "segue run --help"
_ORDINARY = frozenset(("A", "An", "Another", "No", "Nobody", "Not", "Some", "The", "There", "This"))
"""First words of messages that are no names."""


class Readiness(Struct, frozen=True):
    """The verdict of the doctor: could a run start here, and what to type next."""

    ready: bool
    next: str
    """The command, or what to do where no command does it."""
    why: str = ""
    """What keeps a run from starting, as a sentence; or what is good to know about one that could."""
    exit_code: int = 0

    @property
    def sentence(self) -> str:
        """The last line of `segue doctor`."""
        if self.ready and not self.why:
            return f"Ready: {self.next}"
        return f"{'Ready' if self.ready else 'Not ready'}: {self.why} Next: {self.next}"


class FoundWork(Struct, frozen=True):
    """The tasks that a run here would work on."""

    source: Source
    named: str | None
    """What the command has to name; None: it is found without."""
    listing: TaskList
    others: tuple[FoundSource, ...] = ()
    """Further sources that have something to do."""

    @property
    def pending(self) -> int:
        """How many of its tasks are still to be done."""
        return sum(task.status is TaskStatus.PENDING for task in self.listing.tasks)

    @property
    def is_done(self) -> bool:
        """True if it has tasks and all of them are done."""
        return bool(self.listing.tasks) and not self.pending


class NoTasks(UsageError):
    """Nothing says what to do here."""


def find_work(app: App) -> FoundWork:
    """Return the tasks of a run that is started here without naming any; raises what such a run would."""
    root = work_tree(app.repo)
    if not needs_source(app, None):
        source = app.source(None, root)
        configured = app.loaded.settings.source is not None
        return FoundWork(source, None if configured else _shown(source, root), _read(source))
    known = list_sources(app)
    todo = [one for one in known if one.done < one.tasks] or known
    if not todo:
        raise NoTasks(f"{NO_TASKS}.", hint=HOW_TO_PLAN)
    named = name_from_here(app, todo[0])
    source = app.source(named, root)
    return FoundWork(source, named, _read(source), tuple(todo[1:]))


def _read(source: Source) -> TaskList:
    """Return the tasks of a source; unlike `tasks`, looking writes nothing."""
    listing = source.look()
    if listing.refusal is not None:
        raise listing.refusal
    if not listing.tasks and source.outline is None:
        raise NoTasks(f"There are no tasks in {source.title}.", hint=HOW_TO_PLAN)
    return listing


def _shown(source: Source, root: Path) -> str | None:
    path = Path(source.address)
    return os.path.relpath(path) if path.is_relative_to(root) and path.exists() else None


async def judge_readiness(
    app: App,
    checks: Sequence[HealthCheck],
    place: tuple[Repository, Snapshot] | None,
    work: FoundWork | SegueError,
    reports: Sequence[AgentReport],
) -> Readiness:
    """Return the verdict: the first thing that would keep a run from starting, or the command for one."""
    for check in checks:
        if check.needed and not check.ok and check.agent is None:
            return Readiness(False, check.fix, _as_sentence(check.detail), check.exit_code)
    try:
        if isinstance(work, SegueError):
            raise work
        assert place is not None, "without a repository, its check has failed"
        found = _find_agent(app, reports) if needs_agent(app) else None
        await _try_start(_complete(app, found), work, *place)
    except SegueError as error:
        return Readiness(False, error.hint or "segue run", _as_sentence(error.message), error.exit_code)
    if work.is_done:
        return Readiness(True, "segue status", f"every task of {work.source.title} is done.")
    named = [work.named] if work.named else []
    yes = ["--yes"] if found or asks_for_sandbox(app, app.isolation()) else []
    return Readiness(True, join(["segue", "run", *named, *_where(app), *yes]))


async def find_dirty(app: App, work: FoundWork, repo: Repository, now: Snapshot) -> SegueError | None:
    """Return why a run would refuse the work tree, with the command that ends this state."""
    try:
        refuse_dirty(app, work.source, repo.root, now)
    except WorkspaceError as error:
        if await repo.author():
            return WorkspaceError(error.message, hint=COMMIT)
        message = f"{error.message}; and git does not know who commits them"
        return WorkspaceError(message, hint=INTRODUCE)
    return None


async def _try_start(app: App, work: FoundWork, repo: Repository, now: Snapshot) -> None:
    """Do what a run does before it has any effect."""
    settings = app.loaded.settings
    apart = settings.jobs > 1 or settings.worktree or settings.delivery is not None
    if not apart:
        refuse_holder(repo.git_dir)
    elif not now.head:
        raise no_commit(repo)
    plan = await asyncio.to_thread(plan_run, app, work.source, listing=work.listing)
    check_preconditions(settings, work.source)
    await build_parts(plan, repo)


def _complete(app: App, found: FoundAgent | None) -> App:
    """Return the app with the agent and the check that a run would find."""
    settings = app.loaded.settings
    if found is None:
        return app
    check = suggest_check(work_tree(app.repo)) if app.loaded.origin("checks") == "default" else None
    if check is not None and not check.missing and not settings.smoke:
        settings = replace(settings, checks=Commands.read_option(check.command))
    loaded = replace(app.loaded, settings=replace(settings, agent=found.name))
    return replace(app, loaded=loaded)


def _find_agent(app: App, reports: Sequence[AgentReport]) -> FoundAgent:
    """Return the agent that a run would choose; raises what to do to have one."""
    usable = rank_agents(app, reports)
    found = choose_ready(app, usable)
    if found is not None:
        return found
    for report in usable:
        if report.program and report.exit_code == CredentialsError.exit_code:
            raise CredentialsError("No agent is logged in.", hint=command_in(report.fix))
    for report in usable:
        if report.program:
            raise ToolMissing(" ".join(report.problems), hint=report.fix)
    wanted = (command_in(report.fix) for report in usable)
    hint = next((one for one in wanted if find_inside(one.split()[0])), "segue doctor --agents")
    raise ToolMissing("No agent is installed.", hint=hint)


def command_in(fix: str) -> str:
    """Return the command that a fix names; the fix itself if it names none."""
    quoted = re.search(r"`([^`]+)`", fix)
    return quoted[1] if quoted else fix.removeprefix("Install it: ").partition(" — ")[0]


def _where(app: App) -> Iterator[str]:
    """Yield the options that lead a command typed here to the same place and settings."""
    if app.config is not None:
        yield from ("--config", os.path.relpath(app.config))
    if work_tree(app.repo) != work_tree(Path.cwd()) and app.loaded.settings.repo is None:
        yield from ("--repo", os.path.relpath(app.repo))


def _as_sentence(text: str) -> str:
    """Return a message as it continues after a colon."""
    text = " ".join(text.split()).rstrip(".") + "."
    return text[:1].lower() + text[1:] if text.split()[0] in _ORDINARY else text
