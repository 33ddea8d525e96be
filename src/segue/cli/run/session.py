"""Show a run while it works and report how it ended: shared by `run`, `resume` and `demo`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from segue.cli.run.summary import summarise
from segue.cli.terminal.display import observer
from segue.cli.terminal.log import open_log
from segue.cli.terminal.output import Output, announce_page, error_text, is_interactive
from segue.cli.terminal.progress import Progress
from segue.flow.start import NO_TASKS
from segue.notify.observer import RunNotifier
from segue.runtime.plan import PlanChanged, Prepared, prepared
from segue.runtime.session import carry_out
from segue.runtime.wiring import App
from segue.store.projections import task_views
from segue.system.files import private_folder
from segue.system.program import start_in_background


@dataclass(frozen=True, slots=True)
class PageOptions:
    """Whether to serve the page during the run, and to keep it after the run ended."""

    serve: bool = False
    stay: bool = False


NO_PAGE = PageOptions()


async def start(
    app: App,
    named: str | None,
    only: Sequence[str],
    start: str | None,
    output: Output,
    *,
    detach: bool = False,
    verbose: bool = False,
    page: PageOptions = NO_PAGE,
) -> int:
    """Run a source and return the exit code."""
    async with prepared(app, named, only, start) as ready:
        if ready is None:
            if output.json:
                output.record(
                    {"type": "done", "run": None, "state": "done", "exit_code": 0, "note": NO_TASKS}
                )
            output.text(NO_TASKS)
            return 0
        if not ready.fresh:
            output.note(f"Resuming run {ready.run.id}, which did not finish.")
        if not detach:
            return await show_session(ready, output, verbose, page)
        if ready.warning:
            output.warn(ready.warning)
        ready.lock.release()
        return await _detach(ready, output)


def choose(changed: PlanChanged, output: Output) -> str:
    """Ask the user what to do about a plan that changed; without a terminal, raise the error."""
    if output.json or not (sys.stdin.isatty() and is_interactive(sys.stderr)):
        raise changed
    output.warn(error_text(changed))
    choices = click.Choice(["keep", "restart", "stop"])
    answer: str = click.prompt(
        "Keep what is done, restart from the first task, or stop?", type=choices, err=True
    )
    if answer == "stop":
        raise changed
    return answer


async def show_session(ready: Prepared, output: Output, verbose: bool, page: PageOptions = NO_PAGE) -> int:
    """Drive a run in this process and show it."""
    if output.json:
        output.record(_launch_record(ready, os.getpid()))
    if ready.warning:
        output.warn(ready.warning)
    display = observer(output, lambda: _progress(ready), ready.run.id, verbose)
    async with _serve_page(ready, output, page):
        with display, open_log(ready.app.loaded.settings.log) as logs, _notifier(ready, output) as notifier:
            ended = await carry_out(ready, [display, *logs, notifier])
        summarise(ready, ended, output)
    return ended.exit_code


@asynccontextmanager
async def _serve_page(ready: Prepared, output: Output, page: PageOptions) -> AsyncIterator[None]:
    """Serve the page of the run inside the block, and until Ctrl-C if it is to stay."""
    if not page.serve:
        yield
        return
    from segue.system.interrupts import on_interrupt
    from segue.web.app import serve_pages

    async with serve_pages(ready.app, "127.0.0.1", 0) as new_link:
        announce_page(output, new_link(f"/runs/{ready.run.id}"))
        yield
        if page.stay:
            output.note("The run has ended. The page stays until Ctrl-C.")
            stopped = asyncio.Event()
            with on_interrupt(stopped.set):
                await stopped.wait()


def _progress(ready: Prepared) -> Progress:
    """Return what earlier sessions have recorded about the run."""
    progress = Progress.of(ready.spec.titles, ready.app.loaded.settings.limits.budget())
    if not ready.fresh:
        with ready.app.store(read_only=True) as store:
            steps = store.steps(ready.run.id)
        progress.know(task_views(ready.run, steps), steps)
    return progress


def _notifier(ready: Prepared, output: Output) -> RunNotifier:
    """Return the observer that notifies people who are not watching the terminal."""
    app = ready.app
    return RunNotifier(app.loaded.settings.notify, ready.spec.titles, app.store, app.redactor(), output.warn)


def _launch_record(ready: Prepared, pid: int) -> dict[str, object]:
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
        output.record({**_launch_record(ready, pid), "log": str(folder / "segue.log")})
    else:
        output.text(f"Run {ready.run.id} continues in the background (pid {pid}).")
        output.note(f"Follow it: segue logs -f {ready.run.id}   Stop it: segue stop {ready.run.id}")
    return 0


async def _write_spec(ready: Prepared) -> None:
    """Store this command's options, so that the background process uses them."""
    if ready.spec != ready.run.spec:
        with ready.app.store() as store:
            journal = await store.open(ready.run.id)
            await journal.respec(ready.spec)
            await store.close(journal)
