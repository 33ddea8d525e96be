"""The `segue` command: a group that loads a command's file only when that command is called."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from segue import __version__

COMMANDS: dict[str, tuple[str, str]] = {
    "run": ("segue.cli.run:run", "Carry the tasks of a plan through an agent."),
    "resume": ("segue.cli.resume:resume", "Go on with a run that did not finish."),
    "stop": ("segue.cli.stop:stop", "End a run and its agent; the state is kept."),
    "status": ("segue.cli.status:status", "Show runs, or one run with its tasks."),
    "logs": ("segue.cli.logs:logs", "Show what was observed in a run."),
    "report": ("segue.cli.report:report", "Ask where agents fail, what helps, and who does better."),
    "serve": ("segue.cli.serve:serve", "Look at runs, tasks and reports in a browser."),
    "check": ("segue.cli.check:check", "Run the project's checks without an agent."),
    "doctor": ("segue.cli.doctor:doctor", "Check this machine and name the fix for what is missing."),
    "init": ("segue.cli.init:init", "Write a commented segue.toml."),
    "task": ("segue.cli.task:task", "Look at the tasks of a source."),
    "agent": ("segue.cli.agent:agent", "Look at the agents."),
    "config": ("segue.cli.config:config", "Look at the settings and where they come from."),
    "db": ("segue.cli.db:db", "Look after the database."),
    "gc": ("segue.cli.gc:gc", "Remove what ended runs have left in Segue's own folder."),
    "bridge": ("segue.cli.bridge:bridge", "Carry out the commands that an agent prints."),
    "relay": ("segue.cli.relay:relay", "Run white-listed actions on this machine for a bridge elsewhere."),
    "notify": ("segue.cli.notify:notify", "Try out how Segue tells you what happened."),
    "experiment": ("segue.cli.experiment:experiment", "Compare agents and models on the same prompts."),
    "bench": ("segue.cli.bench:bench", "Measure how good the configured judge is."),
    "proxy": ("segue.cli.proxy:proxy", "Serve agents as models, through LiteLLM's proxy."),
    "demo": ("segue.cli.demo:demo", "See a whole run in a throw-away repository, without keys."),
    "sim": ("segue.cli.sim:sim", "Stand-ins for vendors' tools, to rehearse a run."),
    "completion": ("segue.cli.completion:completion", "Print the completion script for your shell."),
    "exit-codes": ("segue.cli.exit_codes:exit_codes", "List what the exit codes mean."),
}
"""Name → where the command is, and the line `segue --help` shows for it."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names in the order in which people need them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest command when the word is unknown."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean `segue {near[0]}`?" if near else " See `segue --help`."
            raise click.UsageError(f"There is no command {args[0]!r}.{hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: `segue exit-codes`.",
)
@click.version_option(__version__, prog_name="segue", message="%(prog)s %(version)s")
def cli() -> None:
    """Carry a list of tasks through coding agents until each one is done and proven.

    \b
    Examples:
      segue demo                                 see it work, without keys
      segue run plan.md --agent scripted         rehearse a plan
      segue run plan.md --dry-run                see every prompt, launch nothing
      segue status                               what ran, what runs
      segue resume                               go on after a stop or a crash
    """


def run(args: Sequence[str]) -> int:
    """Run the command line; every failure ends as a message and an exit code."""
    try:
        result: Any = cli.main(list(args), prog_name="segue", standalone_mode=False)
        sys.stdout.flush()
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        click.echo("segue: interrupted", err=True)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        from segue.cli.output import report_error

        return report_error(error, as_json="--json" in args)
