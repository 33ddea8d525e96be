"""`segue run`: run a task list with coding agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from segue.cli.options import CommandSettings, options, sectioned
from segue.cli.run.choose import agent_settings, choice_options, name_options, refuse_names
from segue.cli.terminal.output import Printer
from segue.cli.terminal.readers import outlive_readers

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from segue.runtime.app import App


SECTIONS = {
    "Most used": ("--agent", "--task", "--jobs", "--dry-run", "--pr", "--yes"),
    "What to run": (
        *("--from", "--story"),
        *("--source", "--plan-changed", "--restart", "--ignore-checklists"),
        "--allow-dirty",
    ),
    "Which agent": ("--model", "--flow", "--isolation"),
    "Checks and proof": ("--judge", "--review", "--allow-no-change"),
    "When to wait or stop": ("--approve", "--pause-after-task", "--fail-fast"),
    "Where the work goes": ("--commit", "--worktree", "--base"),
    "Output": (
        *("--detach", "--verbose", "--quiet", "--json", "--log-file"),
        *("--color", "--help"),
    ),
    "Settings": ("--repo", "--config", "--database-url", "--trust"),
}
"""How `segue run --help` orders the options."""


@click.command(cls=sectioned(SECTIONS))
@click.argument("source", required=False)
@choice_options
@click.option("--model", help="The model to use.")
@click.option("--review", help="The reviewer: stet, ruff, semgrep, command or none.")
@click.option(
    "--judge",
    "judged_by",
    metavar="NAME",
    help="What verifies the work: llm, agent, checks or a plug-in.",
)
@click.option(
    "--approve/--no-approve",
    default=None,
    help="Wait until you approve the plan of a build (default on a terminal).",
)
@click.option("--pause-after-task", is_flag=True, help="Wait for you after each task.")
@click.option("--fail-fast", is_flag=True, help="Begin no further task after one has failed.")
@click.option(
    "-y",
    "--yes",
    is_flag=True,
    help="Do not ask: take what is found, and let agents work simulated or without a sandbox.",
)
@click.option("--dry-run", is_flag=True, help="Print every prompt; launch and write nothing.")
@click.option("--detach", is_flag=True, help="Run in the background; follow with `segue logs -f`.")
@click.option(
    "--worktree", is_flag=True, default=None, help="Work in a separate git worktree, on a new branch."
)
@click.option(
    "--isolation",
    type=click.Choice(["auto", "bwrap", "namespaces", "landlock", "container", "none", "require"]),
    help="The sandbox of agents and checks; auto takes the strongest that works here.",
)
@click.option(
    "--pr", is_flag=True, help="Work on a new branch, push it, and open a pull request with the proof."
)
@click.option(
    "--base", metavar="BRANCH", help="The branch of origin that cloud agents start from, and --pr is for."
)
@click.option(
    "--ignore-checklists",
    is_flag=True,
    default=None,
    help="Start although checklists of the feature have unchecked items.",
)
@click.option("--allow-dirty", is_flag=True, default=None, help="Start despite uncommitted changes.")
@click.option("--allow-no-change", is_flag=True, default=None, help="Accept a task that changes no files.")
@click.option(
    "--commit",
    type=click.Choice(["task", "phase", "never"]),
    help="When Segue commits the agent's changes.",
)
@click.option(
    "--plan-changed",
    type=click.Choice(["ask", "keep", "restart"]),
    help="If completed tasks were rewritten, or the repository lacks their commits: keep what is done, or "
    "start over.",
)
@click.option("--restart", is_flag=True, help="Start over: every task is pending again.")
@click.option("--log-file", metavar="FILE", help="Write a structured log; `-` is stderr.")
@options("trust", "verbose", "new_repo", "config", "database", "json", "quiet", "color")
@outlive_readers()
def run(
    source: str | None,
    agents: tuple[str, ...],
    review: str | None,
    log_file: str | None,
    only: tuple[str, ...],
    start: str | None,
    stories: tuple[str, ...],
    approve: bool | None,
    pause_after_task: bool,
    restart: bool,
    fail_fast: bool,
    yes: bool,
    dry_run: bool,
    detach: bool,
    pr: bool,
    verbose: bool,
    settings: CommandSettings,
    output: Printer,
) -> int:
    """Run the tasks of SOURCE with coding agents.

    SOURCE is a plan file with headings such as `## Task 1`, a Spec Kit feature folder, issues on GitHub, a
    CSV or JSON file, the folder of Task Master or beads, or a sentence that says what to build. The
    default is the source in the configuration, or the feature that Spec Kit itself would use.
    Run the same command again to continue where the last run stopped.

    Without SOURCE or agent, Segue looks for the tasks, an agent that is ready, and the command for the
    tests, shows what it found, and asks once.

    \b
    Examples:
      segue run                                      find tasks, agent and tests, and ask
      segue run plan.md --agent claude --task 3      only task 3
      segue run plan.md --agent cursor,claude        claude takes over where cursor cannot go on
      segue run plan.md -j 4 --dry-run               print every prompt, and what four at once can save
      segue run specs/001-login --story US1          a story of a Spec Kit feature
      segue run "github:acme/shop?label=ready"      issues; one of them: github:acme/shop#12
      segue run "Build a todo app" --repo todo       plan, build and verify step by step
      segue run plan.md --detach && segue logs -f    in the background
    """
    from msgspec.structs import replace

    from segue.cli.run import session
    from segue.runtime.task_choice import TaskChoice

    more = agent_settings(agents)
    more |= {"review": {"reviewer": review}, "log": {"file": log_file}}
    more |= {"delivery": "pr"} if pr else {}
    chosen = TaskChoice(only, start, stories)
    if dry_run:
        app = settings.look(**more)
    else:
        app = settings.load_after(lambda: refuse_names(settings, more, source, chosen), more)
    completed = _complete(settings, more, app, source, yes, dry_run, output)
    if completed is None:
        return session.report_nothing(output)
    source, more, app = completed
    if fail_fast:
        more["on_failure"] = "stop"
        app = settings.look(say=False, **more) if dry_run else settings.load(**more)
    if dry_run:
        from segue.cli.run.dry_run import dry_run as print_prompts

        return print_prompts(app, source, chosen, output)
    gates = _choose_gates(app, source, approve, pause_after_task, output.at_terminal() and not detach)
    if gates != set(app.loaded.settings.gates):
        more["gates"] = sorted(gates)
        app = settings.load(**more)
    confirm = _confirmation(app, source, yes, output)

    def begin(app: App) -> Coroutine[None, None, int]:
        return session.start(
            replace(app, tell=output.warn),
            source,
            chosen,
            output,
            restart=restart,
            detach=detach,
            verbose=verbose,
            confirm=confirm,
        )

    return _run_decided(settings, more, app, begin, output, yes)


def _confirmation(app: App, source: str | None, yes: bool, output: Printer) -> Callable[[], None]:
    """Return what asks whether the simulated agent may use up a real source, once it could start."""
    from segue.cli.run.choose import confirm_simulated
    from segue.runtime.rehearsal import only_writes_notes

    if yes or not only_writes_notes(app):
        return lambda: None
    words = ("run", *name_options())
    return lambda: confirm_simulated(source, words, output)


def _complete(
    settings: CommandSettings,
    more: dict[str, Any],
    app: App,
    source: str | None,
    yes: bool,
    dry_run: bool,
    output: Printer,
) -> tuple[str | None, dict[str, Any], App] | None:
    """Find what was not named; to print prompts, only the source is needed. None: there is nothing to do."""
    from segue.runtime.first_run import needs_agent, needs_source

    if not (needs_source(app, source) or (needs_agent(app) and not dry_run)):
        return source, more, app
    from segue.cli.run.first import complete, find_source

    if dry_run:
        return find_source(app, output if output.at_terminal() and not yes else None), more, app
    completed = complete(settings, more, app, source, yes, output)
    return completed and (*completed, settings.load(**completed[1]))


def _run_decided(
    settings: CommandSettings,
    more: dict[str, Any],
    app: App,
    begin: Callable[[App], Coroutine[None, None, int]],
    output: Printer,
    yes: bool,
) -> int:
    """Run to the end; what a person has to decide first is asked, and the run begins with the answer."""
    import asyncio

    from segue.cli.run import session
    from segue.runtime.moved import CopyKnown
    from segue.runtime.past import CommitsMissing, TickedByNobody
    from segue.runtime.plan import PlanChanged
    from segue.runtime.preconditions import NotIsolated, Undecided

    while True:
        try:
            return asyncio.run(begin(app))
        except (PlanChanged, CommitsMissing, CopyKnown, TickedByNobody) as changed:
            more["plan_changed"] = session.choose_kept(changed, output)
        except Undecided as undecided:
            if yes and isinstance(undecided, NotIsolated):
                undecided.accept()
            else:
                more |= session.decide(undecided, output)
        app = settings.load(**more)


def _choose_gates(app: App, source: str | None, approve: bool | None, pause: bool, watched: bool) -> set[str]:
    """Return where the run waits for a person: builds from a prompt show their plan first."""
    from segue.domain.errors import UsageError
    from segue.domain.events import PLAN_GATE

    gates: set[str] = {*app.loaded.settings.gates, *(("task",) if pause else ())}
    if approve is None and not watched:
        return gates
    planned = app.plans_tasks(source)
    if approve is not None and not planned:
        raise UsageError(
            f"--{'' if approve else 'no-'}approve has no effect: the tasks are written down already.",
            hint="It is for builds from a sentence; to look before you start: --dry-run",
        )
    if planned and approve is not False:
        return gates | {PLAN_GATE}
    return gates - {PLAN_GATE} if approve is False else gates
