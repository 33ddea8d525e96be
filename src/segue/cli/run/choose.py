"""Options that choose what is run of a source and with whom: those of `run` that `rehearse` has as well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from shlex import join
from typing import TYPE_CHECKING, Any

import click

from segue.cli.options import CommandSettings, WholeNumber
from segue.cli.terminal.output import Printer
from segue.domain.errors import UsageError

if TYPE_CHECKING:
    from segue.runtime.task_choice import TaskChoice

_OF_FILES = ("planfile", "speckit", "table")
"""Sources that are read from files of the repository alone."""
_CHOICES = (
    click.option(
        "--agent",
        "agents",
        multiple=True,
        metavar="[ROLE=]NAME[:MODEL][,NAME…]",
        help="The agent to use (see `segue doctor --agents`); further names are fallbacks. "
        "Repeatable, one per role: plan, execute, address, verify, research.",
    ),
    click.option(
        "--source",
        "source_kind",
        metavar="NAME",
        help="The kind of SOURCE, where it is not recognised.",
    ),
    click.option("--flow", help="The phases of each task: execute, plan, review, spec, build or your own."),
    click.option("--task", "only", multiple=True, metavar="KEY", help="Run only this task (repeatable)."),
    click.option("--from", "start", metavar="KEY", help="Run this task and all later ones."),
    click.option(
        "--story", "stories", multiple=True, metavar="US1", help="Run only this story (repeatable)."
    ),
    click.option("-j", "--jobs", type=WholeNumber(1, 64), metavar="N", help="Work on up to N tasks at once."),
)


def choice_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose tasks, agents and flow."""
    for option in reversed(_CHOICES):
        command = option(command)
    return command


def agent_settings(agents: tuple[str, ...]) -> dict[str, Any]:
    """Return the values of `--agent` as settings."""
    from segue.domain.errors import UsageError
    from segue.domain.job import read_agent_options

    try:
        agent, roles = read_agent_options(agents)
    except ValueError as error:
        raise UsageError(f"--agent: {error}.", hint="See: segue doctor --agents") from None
    return {"agent": agent, "roles": roles}


def refuse_names(
    settings: CommandSettings, more: dict[str, Any], source: str | None, chosen: TaskChoice
) -> None:
    """Refuse a source or tasks that are not there, as far as files tell, before asking for trust."""
    from segue.runtime.registry import check_name
    from segue.runtime.task_choice import select_tasks
    from segue.system.reading import work_tree

    app = settings.look(say=False, **more)
    if (judge := app.loaded.settings.judged_by) is not None:
        check_name("judges", judge)
    if source is not None and app.find_kind(source) in _OF_FILES:
        select_tasks(app.source(source, work_tree(app.repo)).look(), chosen)


def name_options(*left_out: str) -> list[str]:
    """Return the words of the command line that is running, without these options."""
    context = click.get_current_context()
    arguments: list[str] = []
    words: list[str] = []
    for option in context.command.params:
        name, given = option.name or "", context.get_parameter_source(option.name or "")
        if name in left_out or given is not click.core.ParameterSource.COMMANDLINE:
            continue
        value: Any = context.params[name]
        if not isinstance(option, click.Option):
            arguments += map(str, value if option.nargs != 1 else [value])
            continue
        spelling = option.opts[-1] if value is not False else option.secondary_opts[-1]
        for one in value if option.multiple else [value]:
            words += [spelling] if option.is_flag else [spelling, str(one)]
    return [*arguments, *words]


def confirm_simulated(source: str | None, words: Sequence[str], output: Printer) -> None:
    """Ask whether the simulated agent may work on a real source; `words` are the command and its options."""
    from segue.runtime.rehearsal import WHY

    rehearse = join(["segue", "rehearse", *([source] if source else [])])
    if not output.at_terminal():
        raise UsageError(
            WHY,
            kept="Nothing was started.",
            hint=f"Rehearse instead: {rehearse}   or run anyway: {join(['segue', *words, '--yes'])}",
        )
    output.warn(f"{WHY}\nRehearse instead: {rehearse}")
    if not click.confirm("Run anyway?", err=True):
        raise UsageError("Not started.", kept="Nothing was changed.", hint=rehearse)
