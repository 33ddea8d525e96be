"""The `segue` command: a group that imports a command's module only when that command is called."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from segue import __version__
from segue.plugins import COMMANDS as FEATURE_COMMANDS
from segue.plugins import import_name

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
        "task": ("run.task:task", "List tasks; accept or skip one, or say something to its agent."),
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
        "try": ("setup.try_agent:try_", "Send one prompt to an agent in a throwaway repository."),
        "trust": ("setup.trust:trust", "See and allow what the project's settings may do."),
        "config": ("setup.config:config", "List the settings, or print their schema."),
    },
    "Serve": {
        "serve": ("serve.serve:serve", "Show runs, tasks and reports in a browser."),
    },
    "Data": {
        "db": ("data.db:db", "Locate, query, export and push the database."),
        "gc": ("data.gc:gc", "Delete leftovers of finished runs from Segue's state folder."),
    },
}
"""Heading → command of the core → its module and function, and its line in `segue --help`."""

FIRST = ("run", "resume", "status", "proof", "logs", "task", "serve", "init", "doctor", "stop")
"""What people use every day: `segue --help` lists these first."""

CALLED = {
    "run": "start build exec",
    "status": "ps ls list show history",
    "logs -f": "tail watch",
    "stop": "kill cancel pause",
    "resume": "continue retry restart",
    "task list": "tasks plan",
    "task say": "say comment answer",
    "proof": "diff verify",
    "serve": "ui web dashboard",
    "doctor --agents": "agent agents login",
    "config list": "settings",
    "init": "setup",
    "gc": "clean prune",
    "--help": "help",
    "--version": "version",
}
"""Command → what other tools call it."""

COMMANDS = {name: entry for commands in GROUPS.values() for name, entry in commands.items()}


def shown_groups() -> dict[str, dict[str, str]]:
    """Return all commands: heading → command → its line, with those of features."""
    shown = {
        heading: {name: text for name, (_, text) in commands.items()} for heading, commands in GROUPS.items()
    }
    for name, command in FEATURE_COMMANDS.items():
        if " " not in name:  # others belong to an `OpenGroup`
            shown.setdefault(command.heading, {}).setdefault(name, command.help)
    return shown


class LazyGroup(click.Group):
    """A group whose commands are imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the help page."""
        return [name for commands in shown_groups().values() for name in commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name in COMMANDS:
            where = f"segue.cli.{COMMANDS[cmd_name][0]}"
        elif found := FEATURE_COMMANDS.get(cmd_name):
            where = found.where
        else:
            return None
        command: click.Command = import_name(where)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List what people use every day, then the others, without importing them."""
        lines = {name: text for commands in shown_groups().values() for name, text in commands.items()}
        rest = [name for name in lines if name not in FIRST]
        width = max(map(len, lines))
        for heading, names in (("Commands", FIRST), ("More commands", rest)):
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), lines[name]) for name in names])

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


def unknown_command(name: str, ctx: click.Context) -> click.UsageError:
    """Return the error for a command that the group of this context does not have."""
    from segue.domain.text import suggest

    names = ctx.command.list_commands(ctx) if isinstance(ctx.command, click.Group) else []
    called = next((ours for ours, theirs in CALLED.items() if name in theirs.split()), "")
    if called and ctx.parent is None:
        hint = f" Did you mean `segue {called}`?"
    else:
        hint = suggest(name, names, f"`{ctx.command_path} {{}}`")
    return click.UsageError(f"There is no command {name!r}.{hint}", ctx)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Help for one command: `segue run --help`.",
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
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        from segue.cli.terminal.output import report_error
        from segue.domain.errors import UsageError

        path = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "segue"
        return report_error(
            UsageError(error.format_message(), hint=f"{path} --help"), as_json="--json" in args
        )
    except (click.Abort, KeyboardInterrupt):
        click.echo("segue: interrupted", err=True)
        return 130
    except Exception as error:
        from segue.cli.terminal.output import report_error

        return report_error(error, as_json="--json" in args)


class OpenGroup(click.Group):
    """A group such as `segue db`: the command `db supabase` of a feature is listed and called in it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the group's own commands and of those that features add, sorted."""
        added = [name.partition(" ")[2] for name in FEATURE_COMMANDS if name.startswith(f"{self.name} ")]
        return sorted([*super().list_commands(ctx), *added])

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, the group's own or one that a feature adds."""
        if (own := super().get_command(ctx, cmd_name)) is not None:
            return own
        found = FEATURE_COMMANDS.get(f"{self.name} {cmd_name}")
        command: click.Command | None = import_name(found.where) if found else None
        return command
