"""`segue run` where something was not named: show what was found, ask once, and remember it on request."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path
from shlex import join
from typing import Any, NoReturn

import click
from msgspec import Struct
from msgspec.structs import replace

from segue.cli.options import CommandSettings, WholeNumber
from segue.cli.run.first_view import describe_found
from segue.cli.terminal.output import Printer, short_paths
from segue.domain.errors import CredentialsError, ToolMissing, UsageError
from segue.domain.task import TaskStatus
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
from segue.runtime.preconditions import refuse_dirty
from segue.runtime.sources import FoundSource
from segue.system.git.repository import look
from segue.system.reading import work_tree

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
    refuse_dirty(app, source, repo.root, now)


def find_source(app: App, ask: Printer | None) -> str:
    """Return the one source of a repository, or the one that a person chooses of several."""
    known = list_sources(app)
    todo = [one for one in known if one.done < one.tasks] or known
    if not todo:
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
    from segue.cli.setup.init import trust_file

    root = work_tree(app.repo)
    values = dict(found.settings)
    if found.source and Path(found.source).exists():
        values = {"source": os.path.relpath(found.source, root), **values}
    lines = [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in values.items()]
    head = "# Written by `segue run` from what it found. All settings: segue init --dry-run"
    target = root / "segue.toml"
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write("\n".join([head, *lines, ""]))
    except OSError as error:
        raise UsageError(
            f"{target} cannot be written: {error.strerror}.", kept=_KEPT, hint=_command(found)
        ) from None
    trust_file(target)
    output.note(f"Wrote {short_paths(str(target))}")
