"""`segue check`: run the project's checks without an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from segue.cli.main import OpenGroup
from segue.cli.options import CommandSettings, options
from segue.cli.terminal.output import Printer

if TYPE_CHECKING:
    from segue.domain.proof import CheckResult
    from segue.flow.context import Examination
    from segue.runtime.app import App

_SHOWN = 4000


@click.group(cls=OpenGroup, invoke_without_command=True)
@options("repo", "config", "json", "color")
@click.pass_context
def check(context: click.Context, settings: CommandSettings, output: Printer) -> int:
    """Run the configured checks, and those that parts add, such as row level security of a Supabase project.

    Checks the working tree as it is, in the sandbox that the checks of a run have: somebody else's pull
    request can be tried without giving it your keys or the network. Exits with 1 if a check fails.

    \b
    Examples:
      segue check
      segue check --repo ../app --json
    """
    if context.invoked_subcommand:
        return 0
    import asyncio

    return asyncio.run(_check_all(settings.load(), output))


async def _check_all(app: App, output: Printer) -> int:
    from segue.domain.errors import UsageError

    results = [await _run_check(app, argv) for argv in app.loaded.settings.checks]
    found = await _examine(app)
    examined = [one for one in found.values() if one is not None]
    if not results and not examined:
        raise UsageError(
            "No checks are configured.",
            hint='Set checks = [["pytest", "-q"]] in segue.toml; see `segue help checks`',
        )
    deciding = [*results, *(one.check for one in examined if one.decides)]
    failed = [result for result in deciding if result.exit_code != 0]
    results += [one.check for one in examined]
    if output.json:
        output.data(_document(results, found, not failed, app.isolation().chosen.means != "none"))
    else:
        if (chosen := app.isolation()).chosen.means == "none":
            output.note(f"The checks are not isolated: {chosen.chosen.why or 'isolation is off'}.")
        for result in results:
            print_result(output, result, whole=any(result is one.check for one in examined))
    return 1 if failed else 0


def _document(
    results: list[CheckResult], examined: dict[str, Examination | None], passed: bool, isolated: bool
) -> dict[str, Any]:
    from segue.domain.results import to_json

    return {
        "passed": passed,
        "isolated": isolated,
        "checks": [to_json(result) for result in results],
        **{name: one.found if one is not None else None for name, one in examined.items()},
    }


async def _examine(app: App) -> dict[str, Examination | None]:
    """Return what the examiners of parts found out, by their names; None: one does not apply here."""
    from segue.runtime.wiring import make_examiners

    made = make_examiners(app, app.state_dir / "scratch")
    return {name: await examine(app.repo) if examine else None for name, examine in made.items()}


async def _run_check(app: App, argv: tuple[str, ...]) -> CheckResult:
    from segue.domain.errors import SegueError
    from segue.domain.proof import CheckResult
    from segue.system.isolation.isolate import capture_inside
    from segue.system.process.capture import inside_environment

    settings, command = app.loaded.settings, " ".join(argv)
    limit, network = settings.limits.phase_timeout, settings.check_network
    try:
        done = await capture_inside(
            app.isolation(), argv, app.repo, inside_environment(), limit, network=network
        )
    except (SegueError, TimeoutError) as error:
        return CheckResult(command, None, str(error))
    said = app.redactor().text((done.out + done.err).decode("utf-8", "replace"))
    return CheckResult(command, done.exit_code, said)


def print_result(output: Printer, result: CheckResult, whole: bool = False) -> None:
    """Print how a check ended, and the end of what it said or all of it."""
    from segue.cli.terminal.output import clean

    ended = {None: "was not run", 0: "passed"}.get(result.exit_code, f"exit code {result.exit_code}")
    output.text(f"{'✓' if result.exit_code == 0 else '✗'} {clean(result.command)}: {ended}")
    shown = result.output if whole else result.output[-_SHOWN:]
    for line in shown.splitlines():
        output.text(f"  {clean(line)}")
