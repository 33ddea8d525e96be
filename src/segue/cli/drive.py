"""What `run`, `resume` and `demo` share: show a session while it works and say how it ended."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from segue.cli.beside import NO_PAGE, Beside, page_beside
from segue.cli.display import observer
from segue.cli.log import structured
from segue.cli.output import Output, animated, error_text
from segue.cli.progress import Progress
from segue.cli.summary import summarise
from segue.domain.task import Task
from segue.flow.context import FLOWS
from segue.flow.start import NO_TASKS, pending, select
from segue.notify.observer import RunNotifier
from segue.runtime.plan import PlanChanged, Prepared, prepared
from segue.runtime.session import carry_out
from segue.runtime.wiring import App
from segue.sources.prompt import PromptSource
from segue.store.projections import task_views
from segue.system.files import private_folder
from segue.system.program import start_in_background


def dry_run(app: App, named: str | None, only: Sequence[str], start: str | None, output: Output) -> int:
    """Print every prompt a run would send, as far as it is known before the first answer."""
    source = app.source(named, app.repo)
    if isinstance(source, PromptSource) and not source.planned():
        return _dry_prompt(app, source, output)
    listing = source.look() if source.kind == "speckit" else source.tasks()
    tasks = pending(listing, select(listing, only, start))
    redact = app.redactor().text
    settings = app.loaded.settings
    phases = FLOWS[app.flow_name(source.kind) if settings.agent else settings.flow or "execute"]
    for task in tasks:
        for phase, prompt in _prompts(task, source.context(task), phases):
            if output.json:
                output.record({"type": "prompt", "task": task.key, "phase": phase, "prompt": redact(prompt)})
            else:
                output.text(f"──── task {task.key}: {task.title} · {phase} ────\n{redact(prompt)}\n")
    output.note(f"{len(tasks)} tasks; nothing was launched." if tasks else NO_TASKS)
    return 0


def _dry_prompt(app: App, source: PromptSource, output: Output) -> int:
    """Before there is a plan, only the prompt that asks for one is known."""
    from segue.prompts.outline import outline_prompt

    prompt = app.redactor().text(outline_prompt(source.goal, nonce="dry-run").text)
    if output.json:
        output.record({"type": "prompt", "task": None, "phase": "outline", "prompt": prompt})
    else:
        output.text(f"──── the plan ────\n{prompt}\n")
    output.note("The steps are not known before an agent has planned them; nothing was launched.")
    return 0


def _prompts(task: Task, context: str, phases: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What comes from an agent or a reviewer stands as a placeholder."""
    from segue.prompts.execute import execute_prompt
    from segue.prompts.plan import plan_prompt

    if "plan" in phases:
        yield "plan", plan_prompt(task, context, nonce="dry-run").text
    made = "(the plan that the plan phase makes)" if "plan" in phases else None
    yield "execute", execute_prompt(task, context, plan=made, nonce="dry-run").text


async def start(
    app: App,
    named: str | None,
    only: Sequence[str],
    start: str | None,
    output: Output,
    *,
    detach: bool,
    verbose: bool,
    page: Beside = NO_PAGE,
) -> int:
    """Run a source from the command line."""
    async with prepared(app, named, only, start) as ready:
        if ready is None:
            if output.json:
                output.record(
                    {"type": "done", "run": None, "state": "done", "exit_code": 0, "note": NO_TASKS}
                )
            output.text(NO_TASKS)
            return 0
        if not ready.fresh:
            output.note(f"Run {ready.run.id} did not finish; it goes on.")
        if not detach:
            return await show_session(ready, output, verbose, page)
        if ready.warning:
            output.warn(ready.warning)
        ready.lock.release()
        return await _detach(ready, output)


def choose(changed: PlanChanged, output: Output) -> str:
    """Ask the person what to do about a plan that changed; a program gets the error."""
    if output.json or not (sys.stdin.isatty() and animated(sys.stderr)):
        raise changed
    output.warn(error_text(changed))
    choices = click.Choice(["keep", "restart", "stop"])
    answer: str = click.prompt(
        "Keep what is done, restart from the first task, or stop?", type=choices, err=True
    )
    if answer == "stop":
        raise changed
    return answer


async def show_session(
    ready: Prepared,
    output: Output,
    verbose: bool,
    page: Beside = NO_PAGE,
) -> int:
    """Drive a run in this process and show it."""
    if output.json:
        output.record(_launch(ready, os.getpid()))
    if ready.warning:
        output.warn(ready.warning)
    display = observer(output, lambda: _progress(ready), ready.run.id, verbose)
    async with page_beside(ready, output, page):
        with display, structured(ready.app.loaded.settings.log) as logs, _notifier(ready, output) as notifier:
            ended = await carry_out(ready, [display, *logs, notifier])
        summarise(ready, ended, output)
    return ended.exit_code


def _progress(ready: Prepared) -> Progress:
    """What is known of the run before it goes on."""
    progress = Progress.of(ready.spec.titles, ready.app.loaded.settings.limits.budget())
    if not ready.fresh:
        with ready.app.store(read_only=True) as store:
            steps = store.steps(ready.run.id)
        progress.know(task_views(ready.run, steps), steps)
    return progress


def _notifier(ready: Prepared, output: Output) -> RunNotifier:
    """Notifies people who are not watching the screen."""
    app = ready.app
    return RunNotifier(app.loaded.settings.notify, ready.spec.titles, app.store, app.redactor(), output.warn)


def _launch(ready: Prepared, pid: int) -> dict[str, object]:
    store = ready.app.redactor().text(ready.app.database())
    return {"type": "launch", "schema": 1, "run": ready.run.id, "pid": pid, "store": store}


async def _detach(ready: Prepared, output: Output) -> int:
    """Hand the run to a `segue resume` in the background."""
    await _write_spec(ready)
    folder = ready.app.run_folder(ready.run.id)
    private_folder(folder)
    pid = start_in_background(
        ["resume", ready.run.id],
        log=folder / "segue.log",
        cwd=Path(ready.spec.repo),
        variables={"SEGUE_DATABASE_URL": ready.app.database(), "SEGUE_STATE_DIR": str(ready.app.state_dir)},
    )
    if output.json:
        output.record({**_launch(ready, pid), "log": str(folder / "segue.log")})
    else:
        output.text(f"Run {ready.run.id} works in the background (pid {pid}).")
        output.note(f"Follow it: segue logs -f {ready.run.id}   End it: segue stop {ready.run.id}")
    return 0


async def _write_spec(ready: Prepared) -> None:
    """The options of this command must be the ones the background process finds."""
    if ready.spec != ready.run.spec:
        with ready.app.store() as store:
            journal = await store.open(ready.run.id)
            await journal.respec(ready.spec)
            await store.close(journal)
