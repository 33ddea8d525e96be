"""What can be done from the page: stop and resume a run; retry, accept or skip a task."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

from segue.domain.errors import Locked, SegueError, UsageError
from segue.domain.run import Run, RunState
from segue.runtime.overrides import decide
from segue.runtime.session import stop_run
from segue.runtime.wiring import App
from segue.store.projections import state_of
from segue.system.program import start_in_background
from segue.web import queries as facts
from segue.web.pages import Act, Done

_GOING = (RunState.RUNNING, RunState.PARKED)
_PATIENCE = 20.0
_MOST_LOG = 4000

Fields = Mapping[str, str]


async def stop(app: App, path: Fields, _form: Fields) -> Done:
    """End a run and its agent."""
    run = await _run(app, path["run"])
    if state_of(run) not in _GOING:
        raise UsageError(f"Run {run.id} does not run: it is {state_of(run)}.", kept="Nothing was changed.")
    stopped = await stop_run(app, run)
    return Done(f"Run {run.id} is {state_of(stopped)}. What was done is kept.", f"/runs/{run.id}")


async def resume(app: App, path: Fields, _form: Fields) -> Done:
    """Go on with a run, in a process of its own."""
    run = await _run(app, path["run"])
    await _go_on(app, run)
    return Done(f"Run {run.id} goes on in the background.", f"/runs/{run.id}")


async def retry(app: App, path: Fields, _form: Fields) -> Done:
    """Try a task again that could not be finished: the run goes on, and comes to it first."""
    run = await _run(app, path["run"])
    await _go_on(app, run)
    return Done(f"Task {path['task']} is tried again; the run goes on in the background.", f"/runs/{run.id}")


async def accept(app: App, path: Fields, _form: Fields) -> Done:
    """Say that a task is done, although it could not be proven."""
    return await _decided(app, path, "accepted by a person", skip=False)


async def skip(app: App, path: Fields, form: Fields) -> Done:
    """Leave a task out."""
    reason = form.get("reason", "").strip()
    if not reason:
        raise UsageError("Say why the task is left out.", kept="Nothing was changed.")
    return await _decided(app, path, f"skipped: {reason[:500]}", skip=True)


async def _decided(app: App, path: Fields, reason: str, *, skip: bool) -> Done:
    run = await _run(app, path["run"])
    if state_of(run) in _GOING:
        raise Locked("The run works just now.", kept="Nothing was changed.", hint="Stop it first.")
    await decide(facts.own_app(app, run), run, path["task"], reason, skip=skip)
    said = "left out" if skip else "accepted as done"
    return Done(f"Task {path['task']} is {said}. Resume the run to go on.", f"/runs/{run.id}")


async def _run(app: App, run_id: str) -> Run:
    def find() -> Run:
        with app.store(read_only=True) as store:
            return facts.run_of(store, run_id)

    return await asyncio.to_thread(find)


async def _go_on(app: App, run: Run) -> None:
    """Start `segue resume` and wait until it works; what keeps it from working stands in its log."""
    if state_of(run) in _GOING:
        raise Locked(f"Run {run.id} works already.", kept="Nothing was changed.")
    if state_of(run) is RunState.DONE:
        raise UsageError(f"Run {run.id} is done.", kept="Nothing was changed.")
    if not Path(run.spec.repo).is_dir():
        raise UsageError(
            f"The repository {run.spec.repo} is not there any more.", kept="Nothing was changed."
        )
    log = app.run_folder(run.id) / "segue.log"
    before = log.stat().st_size if log.exists() else 0
    start_in_background(
        ["resume", run.id],
        log=log,
        cwd=Path(run.spec.repo),
        variables={"SEGUE_DATABASE_URL": app.database(), "SEGUE_STATE_DIR": str(app.state_dir)},
    )
    deadline = time.monotonic() + _PATIENCE
    while (now := await _run(app, run.id)).updated == run.updated or now.owner is None:
        await asyncio.sleep(0.1)
        _refused(log, before)
        if time.monotonic() > deadline:
            raise SegueError(f"Run {run.id} was started, but nothing was heard of it.", hint=f"See {log}")
        if now.updated != run.updated and state_of(now) not in _GOING:
            return  # it has come to its end already


def _refused(log: Path, before: int) -> None:
    """Raise what the new process has said when it ended at once."""
    with log.open("rb") as file:
        file.seek(before)
        said = file.read(_MOST_LOG).decode("utf-8", "replace")
    first = next((line for line in said.splitlines() if line.startswith("segue: ")), "")
    if first:
        hints = [line.strip() for line in said.splitlines() if line.startswith("  Next: ")]
        raise UsageError(first.removeprefix("segue: "), hint=hints[0][6:] if hints else f"See {log}")


_TASK = "/runs/{run}/tasks/{task}"
PAGES = ()
ACTS = (
    Act("/runs/{run}/stop", stop),
    Act("/runs/{run}/resume", resume),
    Act(f"{_TASK}/retry", retry),
    Act(f"{_TASK}/accept", accept),
    Act(f"{_TASK}/skip", skip),
)
