"""Opens a run that any machine may drive: its row exists, its repository is a clone of its own here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from msgspec.structs import replace

from segue.domain.errors import UsageError
from segue.domain.run import Run
from segue.ports import Carrier, Store
from segue.runtime.app import App
from segue.runtime.open import OpenRun
from segue.runtime.past import look_back, settle_first, settle_resume
from segue.runtime.plan import plan_run, replan_run
from segue.runtime.preconditions import check_isolated, check_preconditions
from segue.runtime.ready import build_parts, exclude_state_files, lock_repository
from segue.runtime.task_choice import TaskChoice
from segue.system.git.repository import Repository


@asynccontextmanager
async def open_portable(
    app: App, known: Store, run: Run, home: Repository, named: str | None, carrier: Carrier
) -> AsyncIterator[OpenRun]:
    """Open a run in its clone; `named` is its source on this machine.

    The first machine plans it, with the settings of the repository; the others continue with that plan.
    """
    origin = run.spec.origin
    assert origin is not None
    source = app.source(named, home.root, run.spec.source_kind or None)
    exclude_state_files(home, source)
    fresh = not any(known.events(run.id, limit=1))
    if fresh:
        past = settle_first(source, run)
    else:
        past = settle_resume(source, await look_back(app, known, home, source, run))
    plan = plan_run(app, source, TaskChoice(run.spec.tasks)) if fresh else replan_run(app, source, run)
    refuse_lanes(app)
    refuse_delivery(app)
    said = check_preconditions(app.loaded.settings, source) if fresh else []
    parts, warnings = await build_parts(plan, home)
    if not parts.cloud:
        check_isolated(app, parts.services.isolation)
    begun = plan.spec(home.root, None if fresh else run)
    spec = replace(
        begun,
        kind=run.spec.kind,
        trial=run.spec.trial,
        origin=origin,
        base=origin.branch if parts.cloud else "",
    )
    with lock_repository(home, run.id) as lock:
        await home.recover(run.created / 1000)
        words = "\n".join([*warnings, *said])
        opened = OpenRun(plan, parts, run, spec, home, lock, fresh, words, past=past)
        yield replace(opened, carrier=carrier, store=known)


def refuse_lanes(app: App) -> None:
    """Refuse to work on several tasks of one run at once: lanes belong to one machine."""
    jobs = app.loaded.settings.jobs
    if jobs > 1:
        raise UsageError(
            f"jobs = {jobs} (from {app.loaded.where('jobs')}) does not fit a fleet: a run that moves from "
            "machine to machine works on one task at a time.",
            hint="Leave it out; a fleet works on many runs at once: segue submit A B C",
        )


def refuse_delivery(app: App) -> None:
    """Refuse what happens with a work tree beside the user's: a run of a fleet has none."""
    name = app.loaded.settings.delivery
    if name is not None:
        raise UsageError(
            f'delivery = "{name}" (from {app.loaded.where("delivery")}) does not fit a fleet: its runs push '
            "branches of their own.",
            hint="Leave it out, and open the pull request from that branch",
        )
