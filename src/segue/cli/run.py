"""`segue run`: carry the tasks of a plan through an agent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from segue.cli.options import make_output, options

if TYPE_CHECKING:
    from segue.cli.beside import Beside


@click.command()
@click.argument("source", required=False)
@click.option(
    "--agent",
    "agents",
    multiple=True,
    metavar="[ROLE=]NAME[:MODEL][,NAME…]",
    help="Who does the work: see `segue agent list`; further names take over when the first cannot. "
    "Repeatable, for the roles plan, execute, address, verify, research.",
)
@click.option("--model", default=None, help="The model the agent should use.")
@click.option("--flow", default=None, help="How each task is carried.")
@click.option("--review", default=None, help="Who reviews: stet, ruff, semgrep, command or none.")
@click.option(
    "--judge", "judged_by", type=click.Choice(["llm", "agent", "checks"]), default=None, help="Who verifies."
)
@click.option("--task", "only", multiple=True, metavar="KEY", help="Only this task (repeatable).")
@click.option("--from", "start", default=None, metavar="KEY", help="This task and all after it.")
@click.option("--dry-run", is_flag=True, help="Print every prompt; launch nothing, write nothing.")
@click.option("--detach", is_flag=True, help="Work in the background; follow with `segue logs -f`.")
@click.option("--serve", is_flag=True, help="Show the run live in a browser; the page ends with the run.")
@click.option("--stay", is_flag=True, help="With --serve: the page stays until Ctrl-C.")
@click.option(
    "--worktree",
    is_flag=True,
    default=None,
    help="Work in a git worktree of the run's own, on a branch of its own.",
)
@click.option("--allow-dirty", is_flag=True, default=None, help="Start with uncommitted changes.")
@click.option("--allow-no-change", is_flag=True, default=None, help="A task may change nothing.")
@click.option(
    "--commit",
    type=click.Choice(["task", "phase", "never"]),
    default=None,
    help="When Segue commits what the agent changed.",
)
@click.option(
    "--plan-changed",
    type=click.Choice(["ask", "keep", "restart"]),
    default=None,
    help="When the plan changed since a task was completed: keep what is done, or start anew.",
)
@click.option("--log-file", default=None, metavar="FILE", help="Structured log; `-` is stderr.")
@click.option("--log-format", type=click.Choice(["json", "text"]), default=None, help="Form of that log.")
@click.option("-v", "--verbose", is_flag=True, help="A line for everything the agent says and does.")
@options("plan_format", "repo", "config", "database", "json", "quiet", "color")
def run(
    source: str | None,
    agents: tuple[str, ...],
    review: str | None,
    log_file: str | None,
    log_format: str | None,
    only: tuple[str, ...],
    start: str | None,
    dry_run: bool,
    detach: bool,
    serve: bool,
    stay: bool,
    verbose: bool,
    repo: Path | None,
    config_file: Path | None,
    as_json: bool,
    quiet: bool,
    color: str,
    **settings: Any,
) -> int:
    """Carry the tasks of SOURCE through an agent.

    SOURCE is a plan file with `## Task N` headings, a Spec Kit feature folder, or a sentence that says what
    to build. Without it, the source named in the configuration is taken, or the feature that Spec Kit itself
    would find. The same command again goes on where the last run stopped.

    \b
    Examples:
      segue run plan.md --agent scripted             rehearse with the simulated agent
      segue run plan.md --agent command --task 3     only task 3
      segue run plan.md --from 4 --commit never      from task 4 on, leave commits to me
      segue run plan.md --dry-run                    see every prompt
      segue run specs/001-login --agent command      a Spec Kit feature, verified task by task
      segue run plan.md --detach && segue logs -f    in the background
      segue run plan.md --serve                      watch it in a browser
      segue run plan.md --worktree                   leave my own work tree alone
      segue run "Build a todo app" --repo todo --agent claude      planned, built, verified step by step
      segue run plan.md --agent cursor,claude --agent plan=codex   a fallback, and another one to plan
    """
    import asyncio

    from segue.cli import drive
    from segue.runtime.plan import PlanChanged
    from segue.runtime.wiring import App

    output = make_output(as_json, quiet, color)
    settings |= _chosen(agents)
    settings |= {"review": {"reviewer": review}, "log": {"file": log_file, "format": log_format}}
    app = App.load(repo, config_file, settings)
    if dry_run:
        return drive.dry_run(app, source, only, start, output)
    page = _page(serve or stay, stay, detach)
    while True:
        try:
            return asyncio.run(
                drive.start(app, source, only, start, output, detach=detach, verbose=verbose, page=page)
            )
        except PlanChanged as changed:
            settings["plan_changed"] = drive.choose(changed, output)
            app = App.load(repo, config_file, settings)


def _page(serve: bool, stay: bool, detach: bool) -> Beside:
    """Whether the run is shown in a browser; one in the background is not ours to show."""
    from segue.cli.beside import Beside
    from segue.domain.errors import UsageError

    if detach and serve:
        raise UsageError("--serve shows a run of this process.", hint="With --detach, use: segue serve")
    return Beside(serve, stay)


def _chosen(agents: tuple[str, ...]) -> dict[str, Any]:
    """What `--agent` says, as settings."""
    from segue.domain.errors import UsageError
    from segue.domain.role import read_choices

    try:
        agent, roles = read_choices(agents)
    except ValueError as error:
        raise UsageError(f"--agent: {error}.") from None
    return {"agent": agent, "roles": roles}
