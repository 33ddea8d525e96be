"""The `segue` command: a group that imports a command's module only when that command is called."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from segue import __version__
from segue.domain.installed import built_in_parts, find_command, import_name

GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Run": {
        "run": ("run.run:run", "Run a task list with coding agents."),
        "rehearse": (
            "run.rehearse:rehearse",
            "See what a run would do, with simulated agents; nothing is kept.",
        ),
        "resume": ("run.resume:resume", "Continue a run that did not finish."),
        "follow": ("run.follow:follow", "Work on what comes back from a pull request."),
        "stop": ("run.stop:stop", "Stop a run and its agent; nothing is lost."),
        "say": ("run.say:say", "Tell the agent of a task something, while it works."),
        "task": ("run.task:task", "List tasks; accept, skip, comment on or answer one."),
        "check": ("run.check:check", "Prove your own work, committed or not, without an agent."),
        "demo": ("run.demo.command:demo", "See Segue work in a throwaway repository, without keys."),
    },
    "Look": {
        "status": ("look.status:status", "List runs, or show one run with its tasks."),
        "proof": ("look.proof:proof", "Show how well each task is proven, or what is missing."),
        "logs": ("look.logs:logs", "Print or follow the events of a run."),
    },
    "Set up": {
        "init": ("setup.init:init", "Write a segue.toml with what is found here."),
        "doctor": ("setup.doctor:doctor", "Check this machine and say how to fix what is missing."),
        "agent": ("setup.agent:agent", "List the agents and try them."),
        "parts": ("setup.parts:parts", "List the parts of Segue, and what belongs to each."),
        "plugins": ("setup.parts:plugins", "List what is installed for each socket, and from where."),
        "trust": ("setup.trust:trust", "See and allow what the project's settings may do."),
        "config": ("setup.config:config", "List the settings, explain one, set one."),
        "completion": ("help:completion", "Print the completion script for your shell."),
    },
    "Serve": {
        "serve": ("serve.serve:serve", "Show runs, tasks and reports in a browser."),
    },
    "Data": {
        "db": ("data.db:db", "Locate, migrate, ask, describe, export and push the database."),
        "gc": ("data.gc:gc", "Delete leftovers of finished runs from Segue's state folder."),
    },
    "Help": {
        "help": ("help:help_", "Show help for a command or on a topic."),
    },
}
"""Heading → command of the core → its module and function, and its line in `segue --help`."""

FIRST = ("run", "resume", "status", "proof", "logs", "task", "serve", "init", "doctor", "stop")
"""What people use every day: `segue --help` explains these, and names the others by group."""
WORDS = {
    "Run": "work",
    "Look": "reports",
    "Set up": "setup",
    "Serve": "servers",
    "Data": "data",
    "Fleet": "fleet",
}
"""Heading → the word by which `segue help WORD` lists its commands."""

ALIKE = 0.66
"""How much a word must be like a command to be taken for it."""

COMMANDS = {name: entry for commands in GROUPS.values() for name, entry in commands.items()}


def shown_groups() -> dict[str, dict[str, str]]:
    """Return all commands: heading → command → its line, with those of Segue's own parts."""
    shown = {
        heading: {name: text for name, (_, text) in commands.items()} for heading, commands in GROUPS.items()
    }
    last = shown.popitem()
    for part in built_in_parts():
        for name, command in part.commands.items():
            if " " not in name:  # others belong to an `OpenGroup`
                shown.setdefault(command.heading, {})[name] = command.help
    return {**shown, last[0]: last[1]}


def list_rest() -> dict[str, dict[str, str]]:
    """Return the commands that are not used every day: the word for a group → command → its line."""
    rest: dict[str, dict[str, str]] = {}
    for heading, commands in shown_groups().items():
        word = WORDS.get(heading, "setup")
        rest.setdefault(word, {}).update({name: text for name, text in commands.items() if name not in FIRST})
    return rest


class LazyGroup(click.Group):
    """A group whose commands are imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the help page."""
        return [name for commands in shown_groups().values() for name in commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command; raises UsageError for one of a part that is not installed."""
        if cmd_name in COMMANDS:
            where = f"segue.cli.{COMMANDS[cmd_name][0]}"
        elif found := find_command(cmd_name):
            where = found.where
        else:
            return None
        command: click.Command = import_name(where)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List what people use every day, and the others by group, without importing them."""
        lines = {name: text for commands in shown_groups().values() for name, text in commands.items()}
        rest = list_rest()
        width = max(map(len, (*FIRST, *rest)))
        with formatter.section("Commands"):
            formatter.write_dl([(name.ljust(width), lines[name]) for name in FIRST])
        with formatter.section("More, each explained by `segue help WORD`"):
            formatter.write_dl([(word.ljust(width), ", ".join(names)) for word, names in rest.items()])
            formatter.write_dl([("parts".ljust(width), "what belongs to parts that Segue works without")])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; that nobody reads on ends it, and is no error."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        return result

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest the nearest command for an unknown one."""
        if not args[0].startswith("-") and self.get_command(ctx, args[0]) is None:
            raise unknown_command(args[0], ctx)
        return super().resolve_command(ctx, args)


def _is_file(name: str) -> bool:
    try:
        return Path(name).exists()
    except OSError:  # too long for a path
        return False


def unknown_command(name: str, ctx: click.Context) -> click.UsageError:
    """Return the error for a command that the group of this context does not have."""
    from segue.domain.text import suggest

    names = ctx.command.list_commands(ctx) if isinstance(ctx.command, click.Group) else []
    hint = suggest(name, names, f"`{ctx.command_path} {{}}`", ALIKE)
    if not hint and ctx.parent is None and (len(name.split()) > 1 or _is_file(name)):
        from shlex import quote

        hint = f" Did you mean `segue run {quote(name)}`?"
    return click.UsageError(
        f"There is no command {name!r}.{hint or f' See `{ctx.command_path} --help`.'}", ctx
    )


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Help for one command: `segue run --help`. All pages: `segue help`.",
)
@click.version_option(__version__, "-V", "--version", prog_name="segue", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Log on stderr what Segue does; see SEGUE_LOG.")
def cli(debug: bool) -> None:
    """Run a task list with coding agents until every task is done and proven.

    \b
    Examples:
      segue demo                see it work, without keys
      segue run                 find the tasks, an agent and the tests here, and ask
      segue rehearse plan.md    see what a run would do; nothing is kept
    """
    if wanted := "debug" if debug else os.environ.get("SEGUE_LOG"):
        from segue.cli.debug import configure

        configure(wanted)


def run(args: Sequence[str]) -> int:
    """Run the command line; every failure ends as a message and an exit code."""
    if args[:1] in (["-h"], ["--help"]) and len(args) > 1:
        args = [*args[1:], "--help"]
    try:
        result: Any = cli.main(list(args), prog_name="segue", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        if isinstance(error, click.UsageError) and not isinstance(error, click.exceptions.NoArgsIsHelpError):
            from segue.cli.mistakes import explain
            from segue.cli.terminal.output import report_error

            return report_error(explain(error, args), as_json="--json" in args)
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("segue: interrupted", err=True)
        return 130
    except Exception as error:
        from segue.cli.terminal.output import report_error
        from segue.domain.errors import SourceError, UnknownName

        if isinstance(error, (SourceError, UnknownName)):
            from segue.cli.mistakes.names import explain_name

            error = explain_name(error, args)
        return report_error(error, as_json="--json" in args)


class OpenGroup(click.Group):
    """A group such as `segue db`: the command `db supabase` of a part is listed and called in it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the group's own commands and of those that parts add, sorted."""
        names = [name for part in built_in_parts() for name in part.commands]
        added = [name.partition(" ")[2] for name in names if name.startswith(f"{self.name} ")]
        return sorted([*super().list_commands(ctx), *added])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command; raises UsageError for one of a part that is not installed."""
        if (own := super().get_command(ctx, cmd_name)) is not None:
            return own
        found = find_command(f"{self.name} {cmd_name}")
        command: click.Command | None = import_name(found.where) if found else None
        return command
