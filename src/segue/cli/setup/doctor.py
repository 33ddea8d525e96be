"""`segue doctor`: check this machine and say how to fix what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from segue.cli.options import CommandSettings, options
from segue.cli.terminal.output import Printer, short_paths
from segue.reports.abilities import describe_abilities

if TYPE_CHECKING:
    from segue.runtime.doctor import HealthCheck


@click.command()
@click.option(
    "--agents", "every", is_flag=True, help="Show every agent, with what it can do and how to get it."
)
@options("repo", "config", "database", "json", "color")
def doctor(every: bool, settings: CommandSettings, output: Printer) -> int:
    """Check whether a run could start here, and say what to type next.

    Checks Python, git, the repository, the settings, the database, the sandbox, the tasks, the checks and the
    agents, and what each of these does not tell. What is missing comes with its fix. The last line is the
    verdict and the next command.

    Exits with 0 only if a run could start here, else with the code of the run that could not: 1 the
    database, 2 settings, repository or tasks, 4 a login or a key, 5 a missing program, 6 another run.

    \b
    Examples:
      segue doctor
      segue doctor --agents
      segue doctor --json
    """
    import asyncio

    from segue.runtime.doctor import examine

    found = asyncio.run(examine(settings.look(say=False)))
    if output.json:
        output.data(found.as_data())
        return found.verdict.exit_code
    shown = found.checks if every else [*found.machine, *found.present]
    output.table(["", "what", "detail"], _rows(shown, found.verdict.next, every))
    if found.absent and not every:
        output.text(f"\n{found.absent}  (segue doctor --agents for details)")
    output.text(f"\n{short_paths(found.verdict.sentence)}")
    return found.verdict.exit_code


def _rows(checks: Iterable[HealthCheck], last: str, every: bool) -> Iterator[tuple[str, str, str]]:
    """Yield a row for each check, and one below it for a fix that was not named yet; `last` ends the page."""
    named = {last}
    for check in checks:
        missing = "✗" if check.needed else "–"
        mark = "✓" if check.ok else missing
        yield mark, check.what, short_paths(check.detail)
        if every and check.agent and check.agent.can:
            yield "", "", describe_abilities(check.agent.can)
        if check.agent and check.agent.untold:
            yield "", "", f"does not tell {', or '.join(check.agent.untold)}"
        if check.fix and not check.ok and check.fix not in named:
            named.add(check.fix)
            yield "", "", f"→ {check.fix}"
