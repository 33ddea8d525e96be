"""`segue run` where something was not named: show what was found, ask once, and remember it on request."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import join
from statistics import median
from typing import Any, NoReturn

import click
from msgspec import Struct
from msgspec.structs import replace

from segue.cli.options import CommandSettings, WholeNumber
from segue.cli.terminal.output import Printer, one_line, short_paths
from segue.domain.amounts import format_count, format_quantity, list_some
from segue.domain.errors import CredentialsError, SegueError, ToolMissing, UsageError, WorkspaceError
from segue.domain.graph import Waits
from segue.domain.kinds import with_kinds
from segue.domain.task import Task, TaskStatus
from segue.domain.waits import plan_waits
from segue.ports import Source
from segue.runtime import registry
from segue.runtime.app import App
from segue.runtime.doctor import AgentReport
from segue.runtime.first_run import (
    FoundAgent,
    SuggestedCheck,
    find_agent,
    list_sources,
    name_from_here,
    needs_agent,
    needs_source,
    suggest_check,
)
from segue.runtime.plan import find_flow, has_model_judge, judge_name, kind_rules
from segue.runtime.preconditions import introduce, refuse_dirty
from segue.runtime.sources import FoundSource
from segue.system.git.repository import look
from segue.system.reading import work_tree

_MOST_TASKS = 10
_TITLE_CHARS = 50
_MOST_WAITS = 3


def describe_found(
    app: App, named: str | None, agent: FoundAgent | None, check: SuggestedCheck | None
) -> list[str]:
    """Return the lines that say what a run would do, of an app whose settings have what was found."""
    root = work_tree(app.repo)
    source = app.source(named, root)
    rows = [
        ("tasks", _describe_tasks(source)),
        ("agent", _describe_agent(app, agent)),
        ("checks", _describe_checks(app, check)),
        ("judge", _describe_judge(app, source)),
        ("forecast", _describe_history(app, source)),
    ]
    lines = [f"Found in {short_paths(str(root))}:", "", *(f"  {name:<9} {text}" for name, text in rows)]
    return [*lines, "", *_list_tasks(app, source)]


def _describe_tasks(source: Source) -> str:
    if source.outline is not None and not source.outline.is_planned():
        return f"an agent plans them first: {one_line(source.title, _TITLE_CHARS)}"
    tasks = source.look().tasks
    done = sum(task.status is not TaskStatus.PENDING for task in tasks)
    count = format_count(len(tasks), "task")
    return f"{source.title}: {count}" + (f", {done} done" if done else "")


def _describe_agent(app: App, found: FoundAgent | None) -> str:
    if found is None:
        return f"{app.loaded.settings.agent or app.loaded.settings.roles.execute} (from the settings)"
    login = "" if found.report.login in (None, "not known") else found.report.login
    known = ", ".join(filter(None, (found.report.version, login)))
    others = f"; also ready: {', '.join(found.others)}" if found.others else ""
    return f"{found.name}{f' {known}' if known else ''}: {found.why}{others}"


def _describe_checks(app: App, check: SuggestedCheck | None) -> str:
    if check is None:
        commands = [" ".join(argv) for argv in app.loaded.settings.checks]
        return ", ".join(commands) or "none found: tasks end as changed, not verified"
    if check.missing:
        return f"none: {check.command} ({check.why}) needs {check.missing}, which is not installed"
    return f"{check.command} ({check.why}); it runs on your machine after each task"


def _describe_judge(app: App, source: Source) -> str:
    settings = app.loaded.settings
    flow = find_flow(app, source)
    if not flow.has("verify"):
        return "none: there are no acceptance criteria"
    name = judge_name(app, source, str(settings.agent or settings.roles.execute))
    if name != "agent" and registry.says("judges", name, "by_model"):
        key = settings.judge.api_key_env
        return f"the model {settings.judge.model}" + (f" ({key})" if has_model_judge(app) else "")
    return "the agent, in a mode in which it only answers" if name == "agent" else name


_HISTORY = """
    SELECT h.seconds, h.cost_usd FROM orchestrator_runs r JOIN segue_runs h ON h.run_id = r.id
    WHERE r.source_key = ? AND h.agent = ? AND r.state IN ('done', 'failed', 'needs_human')
    ORDER BY r.created DESC LIMIT 20
"""
_FEWEST = 3


def _describe_history(app: App, source: Source) -> str:
    """Say what finished runs of this source with this agent took."""
    settings = app.loaded.settings
    with app.store(read_only=True) as store:
        rows = store.query(_HISTORY, [source.key, str(settings.agent or settings.roles.execute)])
    if len(rows) < _FEWEST:
        return f"no history yet: {len(rows)} of {_FEWEST} finished runs with this agent"
    costs = [row["cost_usd"] for row in rows if row["cost_usd"]]
    cost = _describe_range(costs, "cost_usd") if len(costs) == len(rows) else "cost not reported"
    return f"{_describe_range([row['seconds'] for row in rows], 'seconds')}; {cost}; from {len(rows)} runs"


def _describe_range(values: Sequence[float], measure: str) -> str:
    middle, low, high = (format_quantity(one, measure) for one in (median(values), min(values), max(values)))
    return f"about {middle} ({low} to {high})"


def _list_tasks(app: App, source: Source) -> Iterator[str]:
    """Yield a line for each of the first pending tasks, and one about their order."""
    if source.outline is not None and not source.outline.is_planned():
        return
    listing = with_kinds(source.look(), kind_rules(app))
    if listing.refusal is not None:
        raise listing.refusal
    waits = _waits(listing.tasks)
    pending = [task for task in listing.tasks if task.status is TaskStatus.PENDING]
    shown = pending[:_MOST_TASKS]
    keys = max((len(task.key) for task in shown), default=0)
    kinds = max((len(task.kind) for task in shown), default=0)
    for task in shown:
        after = _describe_waits(waits, task, {one.key for one in pending})
        title = one_line(task.title, _TITLE_CHARS)
        yield f"  {task.key:<{keys}}  {task.kind:<{kinds}}  {title:<{_TITLE_CHARS}}  {after}".rstrip()
    if len(pending) > _MOST_TASKS:
        yield f"  … and {len(pending) - _MOST_TASKS} more: segue task list"
    yield ""


def _waits(tasks: Sequence[Task]) -> Waits:
    """Return what the tasks wait for; mistakes in it are said when the run starts."""
    try:
        return plan_waits(tasks, touched={})
    except SegueError:
        return {}


def _describe_waits(waits: Waits, task: Task, pending: set[str]) -> str:
    keys = list(dict.fromkeys(key for wait in waits.get(task.key, ()) for key in wait.keys if key in pending))
    if not keys:
        return ""
    return f"after {list_some(keys, _MOST_WAITS)}"


_KEPT = "Nothing was started."
_LOOKED = (
    "a plan such as plan.md with `## Task 1` or `- [ ]` lines, also in docs/, plans/ and specs/; a Spec Kit "
    "feature with tasks.md; .taskmaster/; .beads/"
)
_QUESTION = "Run this? [y]es, [n]o, [o]ptions"
_SHOWN_SOURCES = 20


class Found(Struct, frozen=True):
    """What a run would use that nobody has named."""

    source: str | None
    """What `segue run` takes."""
    agent: FoundAgent | None = None
    """None: the settings name one."""
    check: SuggestedCheck | None = None

    @property
    def settings(self) -> dict[str, Any]:
        """What was found, as settings."""
        found: dict[str, Any] = {"agent": self.agent.name} if self.agent else {}
        if self.check is not None and not self.check.missing:
            found["checks"] = [self.check.command]
        return found


def complete(
    settings: CommandSettings, more: dict[str, Any], app: App, source: str | None, yes: bool, output: Printer
) -> tuple[str | None, dict[str, Any]] | None:
    """Return the source and the settings of a run, with what was found and the user agreed to.

    None: the source that was found has no task that is still to be done.
    """
    watched = output.at_terminal() and not yes
    named = find_source(app, output if watched else None) if needs_source(app, source) else source
    if _is_done(app, named):
        return None
    _refuse_dirty(app, named)
    agent = _find_agent(app, named) if needs_agent(app) else None
    found = Found(named, agent, _find_check(app))
    while True:
        joined = {**more, **{name: value for name, value in found.settings.items() if not more.get(name)}}
        chosen = settings.look(say=False, **joined)
        if output.json and yes:
            output.record({"type": "found", "source": found.source, **found.settings})
        view = "\n".join(describe_found(chosen, found.source, found.agent, found.check))
        (output.warn if watched else output.note)(view)
        if not watched and not yes:
            raise _nobody_to_ask(found, source)
        answer = "y" if yes else _ask(app)
        if answer == "n":
            raise UsageError("Not started.", kept="Nothing was changed.", hint=_command(found))
        if answer == "e":
            _write(app, found, output)
        if answer != "o":
            return found.source, joined
        found = _change(found)


def _is_done(app: App, named: str | None) -> bool:
    source = app.source(named, work_tree(app.repo))
    if source.outline is not None:
        return False
    tasks = source.look().tasks
    return bool(tasks) and all(task.status is not TaskStatus.PENDING for task in tasks)


def _refuse_dirty(app: App, named: str | None) -> None:
    """Refuse uncommitted work before anything is asked."""
    source = app.source(named, work_tree(app.repo))
    if source.outline is not None:
        return  # its repository may still have to be made
    repo, now = asyncio.run(look(app.repo))
    try:
        refuse_dirty(app, source, repo.root, now)
    except WorkspaceError as error:
        raise asyncio.run(introduce(error, repo)) from None


def find_source(app: App, ask: Printer | None) -> str:
    """Return the one source of a repository, or the one that a person chooses of several."""
    known = list_sources(app)
    todo = [one for one in known if one.done < one.tasks] or known
    if not todo:
        if app.loaded.settings.source_kind:
            registry.check_name("sources", app.loaded.settings.source_kind)
        raise UsageError(
            f"Nothing to run was named, and nothing was found in {short_paths(str(work_tree(app.repo)))}.\n"
            f"  Looked for: {_LOOKED}.",
            kept=_KEPT,
            hint='Write a plan and `segue run plan.md`, or say what to build: segue run "Build a todo app"',
        )
    if len(todo) == 1:
        return name_from_here(app, todo[0])
    lines = [_describe_source(number, one) for number, one in enumerate(todo[:_SHOWN_SOURCES], 1)]
    message = f"There are {len(todo)} sources here; which one is meant?\n" + "\n".join(lines)
    if ask is None:
        raise UsageError(message, kept=_KEPT, hint=join(["segue", "run", name_from_here(app, todo[0])]))
    ask.warn(message)
    number = click.prompt("Number", type=WholeNumber(1, len(lines)), err=True)
    return name_from_here(app, todo[number - 1])


def _describe_source(number: int, found: FoundSource) -> str:
    return f"  {number:>2}  {found.source}  ({found.done} of {found.tasks} tasks done)"


def _find_agent(app: App, source: str | None) -> FoundAgent:
    found, reports = find_agent(app)
    if found is None:
        _refuse_agents(reports, source)
    return found


def _refuse_agents(reports: Sequence[AgentReport], source: str | None) -> NoReturn:
    """Say what each agent lacks; those that are installed first."""
    installed = [one for one in reports if one.program]
    shown = installed or reports[:3]
    lines = [f"  {one.name}: {'; '.join(one.problems)} {one.fix}" for one in shown]
    kind = CredentialsError if any(one.exit_code == 4 for one in installed) else ToolMissing
    rehearse = join(["segue", "rehearse", *([source] if source else [])])
    raise kind(
        "No agent was chosen, and none is ready on this machine:\n" + "\n".join(lines),
        kept=_KEPT,
        hint=f"`segue doctor` lists all agents; to rehearse without one: {rehearse}",
    )


def _find_check(app: App) -> SuggestedCheck | None:
    settings = app.loaded.settings
    is_set = app.loaded.origin("checks") != "default" or bool(settings.smoke)
    return None if is_set else suggest_check(work_tree(app.repo))


def _ask(app: App) -> str:
    """Ask for one letter; a segue.toml is offered where there is none."""
    letters, question = ["y", "n", "o"], _QUESTION
    if app.loaded.found.path is None and app.config is None:
        letters, question = [*letters, "e"], f"{_QUESTION}, y[e]s and write segue.toml"
    while True:
        answer: str = click.prompt(question, default="y", err=True).strip().lower()
        word = {"yes": "y", "no": "n", "options": "o"}.get(answer, answer)
        if word in letters:
            return word


def _change(found: Found) -> Found:
    """Let the user change what was found, one thing at a time."""
    agent, check = found.agent, found.check
    if agent is not None and agent.others:
        names = (agent.name, *agent.others)
        name = click.prompt("Agent", type=click.Choice(names), default=agent.name, err=True)
        if name != agent.name:
            report = replace(agent.report, name=name)
            agent = FoundAgent(name, report, "your choice", tuple(one for one in names if one != name))
    old = check.command if check is not None and not check.missing else "-"
    command: str = click.prompt("Checks (a command; - for none)", default=old, err=True).strip()
    if command != old:
        check = None if command in ("-", "") else SuggestedCheck(command, "your choice")
    return Found(found.source, agent, check)


def _nobody_to_ask(found: Found, named: str | None) -> UsageError:
    missing = ["source"] * (named is None) + ["agent"] * (found.agent is not None)
    return UsageError(
        f"No {' and no '.join(missing)} was named, and nobody can be asked: there is no terminal.",
        kept=_KEPT,
        hint=f"{_command(found)}   or take all that was found, with the checks: segue run --yes",
    )


def _command(found: Found) -> str:
    """Return the command that runs what was found without a question."""
    words = ["segue", "run", *([found.source] if found.source else [])]
    return join([*words, *(["--agent", found.agent.name] if found.agent else [])])


def _write(app: App, found: Found, output: Printer) -> None:
    """Write what was found to segue.toml, and trust the file: the user has just seen and confirmed it."""
    from segue.cli.setup.init import write_new

    root = work_tree(app.repo)
    reasons = {
        "agent": found.agent.why if found.agent else "",
        "checks": found.check.why if found.check else "",
    }
    lines = [(name, value, reasons.get(name, "")) for name, value in found.settings.items()]
    if found.source and Path(found.source).exists():
        lines.insert(0, ("source", os.path.relpath(found.source, root), ""))
    write_new(root / "segue.toml", lines)
    output.note(f"Wrote {short_paths(str(root / 'segue.toml'))}")
