"""Show a run while it works and report how it ended: shared by `run`, `resume` and `demo`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import click

from segue.cli.terminal.display import observer
from segue.cli.terminal.log import open_log, refuse_log
from segue.cli.terminal.output import Printer, error_text, one_line
from segue.cli.terminal.progress import Progress
from segue.domain.errors import AtGate, AtPlan, UsageError
from segue.domain.events import NOT_ISOLATED, PLAN_GATE
from segue.domain.run import Run
from segue.flow.earlier import read_durations
from segue.ports import Observer
from segue.runtime.app import App
from segue.runtime.comments import comment, edit_plan, read_plan_text
from segue.runtime.open import OpenRun, open_run, reopen_run
from segue.runtime.plan import NO_TASKS
from segue.runtime.preconditions import Undecided
from segue.runtime.ready import Confirm
from segue.runtime.session import SessionEnd, run_session
from segue.runtime.sources import read_source
from segue.runtime.task_choice import TaskChoice
from segue.runtime.wiring import make_run_notifier
from segue.store.address import masked
from segue.view.run import FOLDED, RunView


async def start(
    app: App,
    named: str | None,
    chosen: TaskChoice,
    output: Printer,
    *,
    restart: bool = False,
    detach: bool = False,
    verbose: bool = False,
    confirm: Confirm = lambda: None,
) -> int:
    """Run a source and return the exit code."""
    refuse_log(app.loaded.settings.log)
    async with open_run(app, named, chosen, restart=restart, confirm=confirm) as opened:
        if opened is None:
            return report_nothing(output)
        if not opened.fresh:
            output.note(f"Resuming run {opened.run.id}, which did not finish.")
        elif opened.spec.base:
            output.note(f"{opened.spec.agent} starts from branch {opened.spec.base} of origin.")
        if detach:
            if opened.warning:
                output.warn(opened.warning)
            return await _detach(opened, output)
        ended = await show_session(opened, output, verbose)
    return await pass_gates(app, ended, output, verbose)


def report_nothing(output: Printer) -> int:
    """Say that no task is left to do; return the exit code."""
    if output.json:
        output.record({"type": "done", "run": None, "state": "done", "exit_code": 0, "note": NO_TASKS})
    output.text(NO_TASKS)
    if not output.json:
        output.note("Next: See the tasks: segue task list   Start over with all of them: segue run --restart")
    return 0


async def pass_gates(app: App, ended: SessionEnd, output: Printer, verbose: bool) -> int:
    """Ask at each gate whether the run continues, where a person is at the terminal; return the exit code."""
    while isinstance(ended.error, AtGate) and output.at_terminal():
        with app.store(read_only=True) as store:
            run = store.run(ended.run)
        assert run is not None
        if not await _ask(app, run, ended.error, output):
            break
        with app.store(read_only=True) as store:
            run = store.run(ended.run) or run
        async with reopen_run(app, run) as opened:
            ended = await show_session(opened, output, verbose)
    return ended.exit_code


async def _ask(app: App, run: Run, gate: AtGate, output: Printer) -> bool:
    """Ask whether a run that waits at a gate continues."""
    if not isinstance(gate, AtPlan):
        return click.confirm("Continue?", err=True)

    return await ask_about_plan(app, run, output)


def choose_kept(error: UsageError, output: Printer) -> str:
    """Ask the user what to do about tasks that are done, but not as they were."""
    question = "Keep what is done, restart from the first task, or stop?"
    return _choose(error, question, ["keep", "restart", "stop"], output)


def _choose(error: UsageError, question: str, choices: Sequence[str], output: Printer) -> str:
    """Ask the user on the terminal; without one, or if they stop, raise the error."""
    _tell_or_raise(error, output)
    answer: str = click.prompt(question, type=click.Choice(choices), err=True)
    if answer == "stop":
        raise error
    return answer


def decide(undecided: Undecided, output: Printer) -> Mapping[str, Any]:
    """Ask whether to start anyway; without a terminal or a yes, raise the error."""
    _tell_or_raise(undecided, output)
    if not click.confirm(undecided.question, err=True):
        raise undecided
    undecided.accept()
    return undecided.answer


def _tell_or_raise(error: UsageError, output: Printer) -> None:
    """Say what a person must decide; without a person at a terminal, raise the error."""
    if not output.at_terminal():
        raise error
    output.warn(error_text(error))


async def show_session(opened: OpenRun, output: Printer, verbose: bool) -> SessionEnd:
    """Drive a run in this process, show it, and say how it ended."""
    if output.json:
        output.record(_launch_record(opened, os.getpid()))
    if opened.warning:
        output.warn(opened.warning)
    if not opened.parts.cloud:
        isolation = opened.parts.services.isolation
        (output.warn if isolation.label == NOT_ISOLATED else output.note)(isolation.sentence)
        if note := isolation.own_note:
            output.note(note)
    if opened.fresh and opened.plan.listing.read_as:
        output.note(opened.plan.listing.read_as)
    ended = await watch_session(opened, output, verbose)
    from segue.cli.run.summary import summarise  # the first agent need not wait for it

    summarise(opened, ended, output)
    return ended


async def watch_session(
    opened: OpenRun, output: Printer, verbose: bool, *, is_saved: bool = True
) -> SessionEnd:
    """Drive a run in this process and show what happens."""
    with (
        observer(output, lambda: _progress(opened), opened.run.id if is_saved else "", verbose) as display,
        open_log(opened.app.loaded.settings.log) as logs,
        _notifier(opened, output) as notifier,
    ):
        return await run_session(opened, [display, *logs, notifier])


def _progress(opened: OpenRun) -> Progress:
    """Return what earlier sessions have recorded about the run."""
    with nullcontext(opened.store) if opened.store else opened.app.store(read_only=True) as store:
        known = store.events(opened.run.id, kinds=FOLDED) if not opened.fresh else ()
        view = RunView.of(opened.spec.titles, known)
        earlier = read_durations(store, opened.source.key)
    settings = opened.app.loaded.settings
    return Progress(view, settings.limits.budget(), earlier, settings.jobs)


def _notifier(opened: OpenRun, output: Printer) -> AbstractContextManager[Observer]:
    """Return the observer that notifies people who are not watching the terminal."""
    found = make_run_notifier(opened.app, opened.spec, output.warn)
    return nullcontext(lambda _event: None) if found is None else found


def _launch_record(opened: OpenRun, pid: int) -> dict[str, object]:
    store = masked(opened.app.database())
    isolation = None if opened.parts.cloud else opened.parts.services.isolation.label
    return {
        "type": "launch",
        "schema": 1,
        "run": opened.run.id,
        "pid": pid,
        "store": store,
        "isolation": isolation,
    }


async def _detach(opened: OpenRun, output: Printer) -> int:
    """Hand the run to a `segue resume` in the background."""
    from segue.runtime.background import detach

    pid, log = await detach(opened)
    if output.json:
        output.record({**_launch_record(opened, pid), "log": str(log)})
    else:
        output.text(f"Run {opened.run.id} continues in the background (pid {pid}).")
        output.note(f"Follow it: segue logs -f {opened.run.id}   Stop it: segue stop {opened.run.id}")
    return 0


_CHOICES = ["approve", "edit", "reject", "stop"]


async def ask_about_plan(app: App, run: Run, output: Printer) -> bool:
    """Show the plan and ask; return whether the run continues: with it, or to make another one."""
    while True:
        _print_plan(app, run)
        answer: str = click.prompt("Approve, edit, reject or stop?", type=click.Choice(_CHOICES), err=True)
        if answer in ("approve", "stop"):
            return answer == "approve"
        try:
            if answer == "reject":
                await comment(app, run, PLAN_GATE, click.prompt("What should be different?", err=True))
                return True
            await edit_in_editor(app, run)
        except UsageError as error:
            output.warn(error_text(error))


async def edit_in_editor(app: App, run: Run) -> bool:
    """Let the person edit the plan in $EDITOR; return whether anything changed."""
    edited = click.edit(read_plan_text(app, run), extension=".yaml")
    return edited is not None and await edit_plan(app, run, edited)


def _print_plan(app: App, run: Run) -> None:
    """Print the steps to stderr, where the question follows."""
    tasks, problem = read_source(app, run)
    lines = [f"{task.key:>3}. {one_line(task.title, 90)} ({task.build_phase})" for task in tasks]
    for line in (*lines, *filter(None, [problem])):
        click.echo(line, err=True)
