"""`segue check`: prove a person's own work as that of a task is proven."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from segue.cli.main import OpenGroup
from segue.cli.options import CommandSettings, options
from segue.cli.terminal.output import Printer

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from segue.domain.proof import CheckResult
    from segue.runtime.app import App
    from segue.runtime.own_work import CheckedWork

_SHOWN = 4000
_FAILED, _BROKEN, _TOO_LOW = 1, 2, 3
_BEAT = 15.0
"""Seconds after which it is said that a check still runs."""


class CheckGroup(OpenGroup):
    """A group that takes a command of the user after `--`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep what follows `--` for the command; nothing of it is an option or a subcommand."""
        if "--" in args:
            at = args.index("--")
            ctx.meta[__name__] = args[at + 1 :]
            args = args[:at]
        return super().parse_args(ctx, args)


@click.group(cls=CheckGroup, invoke_without_command=True, subcommand_metavar="[-- CHECK...]")
@click.option(
    "--since",
    metavar="REF",
    help="Check all work since it parted from REF, committed or not; else since HEAD.",
)
@click.option(
    "--require",
    type=click.Choice(["checked", "tested"]),
    help="Exit with 3 if the work is proven less than that.",
)
@click.option(
    "--about", default="", metavar="TEXT", help="What the work is to do: says which tests may change."
)
@options("trust", "repo", "config", "json", "quiet", "color")
@click.pass_context
def check(
    context: click.Context,
    since: str | None,
    require: str | None,
    about: str,
    settings: CommandSettings,
    output: Printer,
) -> int:
    """Prove your own work as that of a task is proven: sealed checks on everything that is not committed.

    Prints the card of a task: its level, what is shown and what is not, the tests that prove it, mutants
    that survive, old tests that were changed. No agent is launched, no run is recorded, and the work tree,
    the index and the branches stay as they are. Without `checks` in the settings, the project's own command
    for its tests is used; CHECK is another one. What parts add, such as row level security of a Supabase
    project, is checked too.

    Exits with 0 if nothing speaks against the work, 1 if a check fails or cannot be believed, 2 if a check
    cannot start, 3 if the work is proven less than --require asks for.

    \b
    Examples:
      segue check                                    what is not committed, with the configured checks
      segue check --since origin/main                the whole branch, as in a pull request
      segue check --since origin/main --require checked   in CI, or in .git/hooks/pre-push
      segue check -- pytest -q tests/api             with another check
      segue check --about "Round totals up"          old tests of totals may change
      segue check --json | jq .data.level
    """
    given = context.meta.get(__name__)
    if context.invoked_subcommand:
        if given is not None:
            raise click.UsageError(f"`{context.invoked_subcommand}` takes no command after --.")
        return 0
    if given == []:
        raise click.UsageError("A command must follow `--`, as in: segue check -- pytest -q")
    import asyncio

    return asyncio.run(_check(_load(settings, given, output), since, require, about, output))


def _load(settings: CommandSettings, given: list[str] | None, output: Printer) -> App:
    """Load the settings, with the check that was named, or found where there is none."""
    if given is not None:
        return settings.load(checks=[shlex.split(given[0]) if len(given) == 1 else given])
    app = settings.load()
    if app.loaded.origin("checks") != "default":
        return app
    from segue.runtime.first_run import suggest_check
    from segue.system.reading import work_tree

    found = suggest_check(work_tree(app.repo))
    if found is None:
        return app
    output.note(f"No checks are configured; this one was found: {found.command} ({found.why})")
    return settings.load(checks=[found.command])


async def _check(app: App, since: str | None, require: str | None, about: str, output: Printer) -> int:
    from segue.domain.proof import CheckState, Level
    from segue.runtime.own_work import check_work, find_work
    from segue.runtime.wiring import check_programs

    check_programs(app)
    work = await find_work(app, since)
    for one in work.left_out:
        output.warn(f"Left out: {one}")
    found = await _say_time(check_work(app, work, about, output.note), output)
    lacking = found.lacks(Level(require) if require else None)
    if output.json:
        output.data(_document(found, require))
    else:
        _print(found, work.compared, output)
    if lacking:
        output.warn(lacking)
    if not found.passed:
        return _BROKEN if any(one.state is CheckState.BROKEN for one in found.checks) else _FAILED
    return _TOO_LOW if lacking else 0


async def _say_time(work: Coroutine[Any, Any, CheckedWork], output: Printer) -> CheckedWork:
    """Wait for the checks, and say from time to time that they still run."""
    import asyncio
    import time

    from segue.domain.amounts import format_duration

    began, running = time.monotonic(), asyncio.ensure_future(work)
    try:
        while not (await asyncio.wait({running}, timeout=_BEAT))[0]:
            output.note(f"… {format_duration(time.monotonic() - began)}")
        return running.result()
    finally:
        running.cancel()
        await asyncio.wait({running})


def _document(found: CheckedWork, require: str | None) -> dict[str, Any]:
    return {
        **found.card.to_json(),
        "passed": found.passed,
        "required": require,
        "files": list(found.files),
        **{name: one.found if one is not None else None for name, one in found.examined.items()},
    }


def _print(found: CheckedWork, compared: str, output: Printer) -> None:
    if not found.files:
        output.text(f"There is nothing to check: the work tree is as {compared}.")
        return
    from segue.cli.terminal.output import terminal_width
    from segue.reports.card.layout import lay_out
    from segue.reports.card.text import WIDTH, render_text

    output.text(render_text([lay_out(found.card)], min(100, terminal_width() or WIDTH)))
    examined = [one.check for one in found.examined.values() if one is not None]
    for result in found.checks:
        if not result.ok and result not in examined:
            output.text("")
            print_result(output, result)
    for result in examined:
        output.text("")
        print_result(output, result, whole=True)


def print_result(output: Printer, result: CheckResult, whole: bool = False) -> None:
    """Print how a check ended, and the end of what it said or all of it."""
    from segue.cli.terminal.output import clean

    ended = {None: "was not run", 0: "passed"}.get(result.exit_code, f"exit code {result.exit_code}")
    output.text(f"{'✓' if result.exit_code == 0 else '✗'} {clean(result.command)}: {ended}")
    shown = result.output if whole else result.output[-_SHOWN:]
    for line in shown.splitlines():
        output.text(f"  {clean(line)}")
