"""Actions on the page: stop, resume or propose a run; decide or comment on a task; decide on a plan."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from segue.domain.errors import Locked, UsageError
from segue.domain.events import PLAN_GATE
from segue.domain.run import Run
from segue.runtime.app import App
from segue.runtime.background import start_resume, stop_run
from segue.runtime.comments import comment as store_comment
from segue.runtime.comments import describe_way, edit_plan
from segue.runtime.overrides import decide, describe_later, try_again
from segue.runtime.overrides import propose as propose_run
from segue.runtime.sources import load_run_app
from segue.view.load import state_of
from segue.web import queries
from segue.web.routes import ActionResult, ActionRoute

Fields = Mapping[str, str]


async def stop(app: App, path: Fields, _form: Fields) -> ActionResult:
    """Stop a run and its agent."""
    run = await _read_run(app, path["run"])
    if state_of(run) not in queries.ACTIVE:
        raise UsageError(f"Run {run.id} is not running: it is {state_of(run)}.", kept="Nothing was changed.")
    stopped = await stop_run(app, run)
    return ActionResult(f"Run {run.id} is {state_of(stopped)}. Finished work is kept.", f"/runs/{run.id}")


async def resume(app: App, path: Fields, _form: Fields) -> ActionResult:
    """Resume a run in a process of its own."""
    run = await _read_run(app, path["run"])
    await start_resume(app, run)
    return ActionResult(f"Run {run.id} was resumed in the background.", f"/runs/{run.id}")


async def retry(app: App, path: Fields, _form: Fields) -> ActionResult:
    """Retry a task that could not be finished: the run is resumed and starts with it."""
    run = await _read_run(app, path["run"])
    later = await try_again(app, run, path["task"])
    when = "The run works: it will be tried again" if later else "The run was resumed in the background"
    return ActionResult(f"Retrying task {path['task']}. {when}.", f"/runs/{run.id}")


async def accept(app: App, path: Fields, _form: Fields) -> ActionResult:
    """Accept a task as done, although that could not be proven."""
    return await _override(app, path, "accepted by a person", skip=False)


async def skip(app: App, path: Fields, form: Fields) -> ActionResult:
    """Skip a task."""
    reason = form.get("reason", "").strip()
    if not reason:
        raise UsageError("A reason is required to skip a task.", kept="Nothing was changed.")
    return await _override(app, path, f"skipped: {reason[:500]}", skip=True)


async def comment(app: App, path: Fields, form: Fields) -> ActionResult:
    """Store what a person says about a task, with the place in the diff where they say it."""
    run = await _read_run(app, path["run"])
    place = ":".join(filter(None, (form.get("file", "").strip(), form.get("line", "").strip())))
    text = ": ".join(filter(None, (place, form.get("text", "").strip())))
    if not form.get("text", "").strip():
        raise UsageError("Write something first.", kept="Nothing was changed.")
    key = path["task"]
    if way := await store_comment(load_run_app(app, run), run, key, text):
        return ActionResult(describe_way(key, way), f"/runs/{run.id}")
    if form.get("then") == "retry":
        await start_resume(app, await _read_run(app, path["run"]))
        return ActionResult(f"Task {key} is tried again, with what you said.", f"/runs/{run.id}")
    said = f"The comment on task {key} is stored. Resume the run to send it to the agent."
    return ActionResult(said, f"/runs/{run.id}")


async def edit_steps(app: App, path: Fields, form: Fields) -> ActionResult:
    """Replace the steps of a plan that waits for a person's word."""
    run = await _read_run(app, path["run"])
    changed = await edit_plan(load_run_app(app, run), run, form.get("plan", ""))
    said = "The plan was changed." if changed else "The plan is as it was."
    return ActionResult(f"{said} Resume the run to approve it.", f"/runs/{run.id}")


async def reject_plan(app: App, path: Fields, form: Fields) -> ActionResult:
    """Have another plan made, with a person's words about this one."""
    run = await _read_run(app, path["run"])
    await store_comment(load_run_app(app, run), run, PLAN_GATE, form.get("text", ""))
    await start_resume(app, await _read_run(app, path["run"]))
    return ActionResult("Another plan is being made, with what you said.", f"/runs/{run.id}")


async def propose(app: App, path: Fields, _form: Fields) -> ActionResult:
    """Open a pull request with the work of a run that nobody works on."""
    run = await _read_idle_run(app, path["run"])
    found = await propose_run(app, run)
    return ActionResult(found.words, f"/runs/{run.id}")


async def _override(app: App, path: Fields, reason: str, *, skip: bool) -> ActionResult:
    run, verb = await _read_run(app, path["run"]), "skipped" if skip else "accepted as done"
    if await decide(load_run_app(app, run), run, path["task"], reason, skip=skip):
        return ActionResult(describe_later(path["task"], skip=skip), f"/runs/{run.id}")
    return ActionResult(f"Task {path['task']} was {verb}. Resume the run to continue.", f"/runs/{run.id}")


async def _read_idle_run(app: App, run_id: str) -> Run:
    run = await _read_run(app, run_id)
    if state_of(run) in queries.ACTIVE:
        raise Locked("The run is still running.", kept="Nothing was changed.", hint="Stop it first.")
    return run


async def _read_run(app: App, run_id: str) -> Run:
    def find() -> Run:
        with app.store(read_only=True) as store:
            return queries.get_run(store, run_id)

    return await asyncio.to_thread(find)


_TASK = "/runs/{run}/tasks/{task}"
ACTIONS = (
    ActionRoute("/runs/{run}/stop", stop),
    ActionRoute("/runs/{run}/resume", resume),
    ActionRoute("/runs/{run}/propose", propose),
    ActionRoute("/runs/{run}/plan/edit", edit_steps),
    ActionRoute("/runs/{run}/plan/reject", reject_plan),
    ActionRoute(f"{_TASK}/comment", comment),
    ActionRoute(f"{_TASK}/retry", retry),
    ActionRoute(f"{_TASK}/accept", accept),
    ActionRoute(f"{_TASK}/skip", skip),
)
