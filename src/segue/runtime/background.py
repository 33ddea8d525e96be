"""Runs in other processes: continue one in a process that outlives this one, and stop one from here."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from segue.config.tree import environment_of
from segue.domain.errors import Locked, SegueError, UsageError
from segue.domain.run import Run, RunState
from segue.plugins import find_call
from segue.runtime.app import App
from segue.runtime.ending import close_run
from segue.runtime.open import OpenRun
from segue.system import identity
from segue.system.process.folder import end_orphans
from segue.system.process.segue import has_ended, start_in_background
from segue.view.load import ACTIVE, state_of

_START_TIMEOUT = 120.0
_STOP_TIMEOUT = 60.0
_SILENT_END = 20.0
_LOG_BYTES = 4000


async def detach(opened: OpenRun) -> tuple[int, Path]:
    """Hand an open run to a `segue resume` in the background; return its pid and its log."""
    opened.lock.release()
    if opened.spec != opened.run.spec:  # this command's options, for the other process
        with opened.app.store() as store:
            journal = await store.open(opened.run.id)
            await journal.respec(opened.spec)
            await store.close(journal)
    log = opened.app.run_folder(opened.run.id) / "segue.log"
    return resume_in_background(opened.app, opened.run, log), log


async def start_resume(app: App, run: Run) -> None:
    """Start `segue resume` and wait until it runs; its log says what prevents that.

    A run that was submitted to other machines continues there.
    """
    if run.spec.origin is not None:
        await find_call("fleet.resume")(app, run)
        return
    if state_of(run) in ACTIVE:
        raise Locked(
            f"Run {run.id} is already running.", kept="Nothing was changed.", hint=f"segue logs -f {run.id}"
        )
    if state_of(run) is RunState.DONE:
        raise UsageError(
            f"Run {run.id} is done.", kept="Nothing was changed.", hint=f"Look at it: segue status {run.id}"
        )
    if not Path(run.spec.repo).is_dir():
        raise UsageError(
            f"The repository {run.spec.repo} no longer exists.",
            kept="Nothing was changed.",
            hint="Put it back where it was, or start another run",
        )
    log = app.run_folder(run.id) / "segue.log"
    before = log.stat().st_size if log.exists() else 0
    pid = resume_in_background(app, run, log)
    began = time.monotonic()
    while True:
        ended = has_ended(pid)  # before looking at the run, so that what it has done is seen
        now = await asyncio.to_thread(_read_again, app, run)
        if now.updated != run.updated and (now.owner is not None or state_of(now) not in ACTIVE):
            return
        # The process before this one may still be writing its last words into the log.
        refusal = _find_refusal(log, before) if ended else None
        # What a run says that has begun and ended meanwhile is no refusal.
        if refusal and (await asyncio.to_thread(_read_again, app, run)).updated == run.updated:
            raise refusal
        # One that has ended without a word is soon known to have been killed.
        if time.monotonic() - began > (_SILENT_END if ended else _START_TIMEOUT):
            raise SegueError(
                f"Run {run.id} was resumed, but did not report back within {time.monotonic() - began:.0f} s.",
                hint=f"See {log}",
            )
        await asyncio.sleep(0.1)


def _read_again(app: App, run: Run) -> Run:
    with app.store(read_only=True) as store:
        return store.run(run.id) or run


def _find_refusal(log: Path, before: int) -> UsageError | None:
    """Return the last error that was printed since, if there is one."""
    with log.open("rb") as file:
        file.seek(max(before, log.stat().st_size - _LOG_BYTES))
        text = "\n" + file.read(_LOG_BYTES).decode("utf-8", "replace")
    _, found, said = text.rpartition("\nsegue: ")
    if not found:
        return None
    first, *rest = said.splitlines()
    hints = [line.strip() for line in rest if line.startswith("  Next: ")]
    return UsageError(first, hint=hints[0][6:] if hints else f"See {log}")


def resume_in_background(app: App, run: Run, log: Path) -> int:
    """Start `segue resume` in a process of its own that outlives this one; return its pid."""
    variables = environment_of(app.place())
    return start_in_background(["resume", run.id], log=log, cwd=Path(run.spec.repo), variables=variables)


async def stop_run(app: App, run: Run) -> Run:
    """End a run from another process: ask its owner; without one, end what it left behind."""
    if run.spec.origin is not None:
        stopped: Run = await find_call("fleet.stop")(app, run)
        return stopped
    with app.store() as store:
        if _is_driven(run):
            store.send(run.id, "stop", {})
            deadline = asyncio.get_running_loop().time() + _STOP_TIMEOUT
            while _is_driven(now := store.run(run.id) or run):
                if asyncio.get_running_loop().time() > deadline:
                    raise Locked(
                        f"Run {run.id} was asked to stop but is still working.",
                        hint=f"End its process: kill {identity.pid_of(str(now.owner))}",
                    )
                await asyncio.sleep(0.05)
        else:
            await end_orphans(app.run_folder(run.id))
            journal = await store.open(run.id)
            await close_run(journal, RunState.STOPPED, "stopped by `segue stop`")
            await store.close(journal)
        return store.run(run.id) or run


def _is_driven(run: Run) -> bool:
    """Return whether a process may be working on the run."""
    return run.owner is not None and not identity.is_dead(run.owner.split("#")[0])
