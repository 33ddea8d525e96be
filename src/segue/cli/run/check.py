"""`segue check`: run the project's checks without an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from segue.cli.options import CommandSettings, options
from segue.cli.terminal.output import Printer

if TYPE_CHECKING:
    from segue.domain.proof import CheckResult
    from segue.judges.rls.report import RlsReport
    from segue.runtime.app import App

_SHOWN = 4000


@click.group(invoke_without_command=True)
@options("repo", "config", "json", "color")
@click.pass_context
def check(context: click.Context, settings: CommandSettings, output: Printer) -> int:
    """Run the configured checks, and the row level security check of a Supabase project.

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


@check.command("rls")
@options("repo", "config", "json", "color")
def rls(settings: CommandSettings, output: Printer) -> int:
    """Test the row level security of a Supabase project.

    Applies the migrations to a temporary Postgres. Then an anonymous visitor and a user try to read and
    change another user's rows, table by table. Exits with 1 if they succeed, or if it could not be tested.

    \b
    Examples:
      segue check rls
      segue check rls --repo ../app --json
    """
    import asyncio

    from segue.domain.errors import UsageError

    app = settings.load()
    report = asyncio.run(_check_rls(app, required=True))
    if report is None:
        raise UsageError(
            f"There is no supabase/migrations in {app.repo}.", hint="Name the project with --repo DIR"
        )
    if output.json:
        output.data(report.as_json())
    else:
        _print_result(output, report.as_check())
    return 0 if report.passed else 1


async def _check_all(app: App, output: Printer) -> int:
    from segue.domain.errors import UsageError

    results = [await _run_check(app, argv) for argv in app.loaded.settings.checks]
    report = await _check_rls(app, required=False)
    if report is not None:
        results.append(report.as_check())
    if not results:
        raise UsageError(
            "No checks are configured.",
            hint='Set checks = [["pytest", "-q"]] in segue.toml; see `segue help checks`',
        )
    left_out = report is not None and not report.decides
    failed = [result for result in results[: -1 if left_out else None] if result.exit_code != 0]
    if output.json:
        output.data(_document(results, report, not failed, app.isolation().chosen.means != "none"))
    else:
        if (chosen := app.isolation()).chosen.means == "none":
            output.note(f"The checks are not isolated: {chosen.chosen.why or 'isolation is off'}.")
        for result in results:
            _print_result(output, result)
    return 1 if failed else 0


def _document(
    results: list[CheckResult], report: RlsReport | None, passed: bool, isolated: bool
) -> dict[str, Any]:
    from segue.domain.results import to_json

    return {
        "passed": passed,
        "isolated": isolated,
        "checks": [to_json(result) for result in results],
        "rls": report.as_json() if report is not None else None,
    }


async def _check_rls(app: App, *, required: bool) -> RlsReport | None:
    import msgspec

    from segue.judges.rls import examine

    chosen = app.loaded.settings.rls
    if required:
        chosen = msgspec.structs.replace(chosen, enabled="on")
    return await examine(app.repo, chosen, app.state_dir / "scratch")


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


def _print_result(output: Printer, result: CheckResult) -> None:
    from segue.cli.terminal.output import clean

    ended = {None: "was not run", 0: "passed"}.get(result.exit_code, f"exit code {result.exit_code}")
    output.text(f"{'✓' if result.exit_code == 0 else '✗'} {clean(result.command)}: {ended}")
    shown = result.output if result.command == "rls check" else result.output[-_SHOWN:]
    for line in shown.splitlines():
        output.text(f"  {clean(line)}")
