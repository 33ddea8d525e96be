"""Drives runs on this machine, each from its clone to the end of its session, in a process of a seat."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from msgspec import Struct
from msgspec.structs import replace

from segue.config.tree import leaves
from segue.config.trust import VARIABLE, is_confined
from segue.domain.errors import LeaseLost, Locked, SegueError, StoreAway, UsageError
from segue.domain.run import Run, RunState
from segue.features.fleet.git.clones import Clones
from segue.features.fleet.git.portable import unpack
from segue.features.fleet.options import WorkerSettings
from segue.features.fleet.placement import refuse_foreign
from segue.features.fleet.register import find_run
from segue.features.fleet.work import WorkCarrier, find_work, load_work, source_here
from segue.ports import Observer
from segue.runtime.app import App
from segue.runtime.open import Carrier, OpenRun
from segue.runtime.past import look_back, settle_first, settle_resume
from segue.runtime.plan import plan_run, replan_run
from segue.runtime.preconditions import check_isolated, check_preconditions
from segue.runtime.ready import build_parts, exclude_state_files, lock_repository
from segue.runtime.session import run_session
from segue.runtime.task_choice import TaskChoice
from segue.runtime.wiring import make_run_notifier
from segue.store.database import Disconnected
from segue.store.postgres import Postgres
from segue.store.schema import create
from segue.system import identity
from segue.system.files import exclusive, private_folder, write_atomic
from segue.system.git.repository import Repository
from segue.system.git.worktree import branch_of
from segue.system.lock import RepoLock
from segue.system.process.folder import end_orphans

if TYPE_CHECKING:
    from segue.store.store import Store


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
    if fresh:
        check_preconditions(app.loaded.settings, source)
    parts, warnings = await build_parts(plan, home)
    if not parts.cloud:
        check_isolated(app, parts.services.isolation)
    begun = plan.spec(home.root, None if fresh else run)
    spec = replace(
        begun,
        kind=run.spec.kind,
        origin=origin,
        base=origin.branch if parts.cloud else "",
    )
    with lock_repository(home, run.id) as lock:
        await home.recover(run.created / 1000)
        words = "\n".join(warnings)
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


logger = logging.getLogger(__name__)

OVER = (RunState.DONE, RunState.FAILED, RunState.NEEDS_HUMAN, RunState.STOPPED)
"""States in which a run waits for nobody, or for a person."""


_MOST_RUNS = 200
"""How many runs one process drives: what each of them leaves in its memory does not add up."""
_PASSES = (Locked, LeaseLost, StoreAway, Disconnected)
"""Reasons to end that say nothing about this machine."""


class Order(Struct, frozen=True):
    """What a worker tells the process that drives a run."""

    run: str
    address: str
    """The database."""
    state_dir: Path
    """Where this worker keeps its files."""
    worker: WorkerSettings
    """What the owner of this machine allows."""


class DriveEnd(Struct, frozen=True):
    """How a process that drove a run has ended."""

    done: bool
    """Whether the run was driven, or somebody else drives it; False: this worker could not."""
    said: str = ""
    killed: bool = False
    """Whether the process was killed: its agent may still be at work."""
    clean: bool = False
    """Whether nothing happened that the next run in the same process could notice."""


def place_of(state_dir: Path, run: str) -> Path:
    """Return the folder in which a worker keeps everything about a run."""
    return state_dir / "fleet" / "runs" / run


def places_in(state_dir: Path) -> list[Path]:
    """Return the folders of all runs that a worker has something of."""
    folder = place_of(state_dir, "")
    return sorted(folder.iterdir()) if folder.is_dir() else []


def clones_in(state_dir: Path) -> Clones:
    """Return the clones of a worker."""
    return Clones(private_folder(private_folder(state_dir / "fleet") / "clones"))


def drive_orders(orders: Connection) -> None:
    """Drive one run after another; the entry of the process, which answers each order with how it ended."""
    if sys.platform != "win32":
        os.setsid()  # Ctrl-C at the worker's terminal is the worker's business
    connections: list[Postgres] = []
    with contextlib.suppress(EOFError, ConnectionError, KeyboardInterrupt):  # the worker wants no more
        for left in reversed(range(_MOST_RUNS)):
            end = _drive_logged(orders.recv(), connections)
            fit = end.clean and left > 0
            orders.send((end, fit))
            if not fit:
                return


def _drive_logged(order: Order, connections: list[Postgres]) -> DriveEnd:
    with _log_into(order) as log:
        try:
            return asyncio.run(_drive(order, connections))
        except SegueError as error:
            if isinstance(error, LeaseLost):
                logger.info("run %s: the lease was lost", order.run)
            said = " ".join(filter(None, (error.message, error.hint)))
            log.write(f"segue: {said}\n".encode())
            return DriveEnd(isinstance(error, _PASSES), said)


async def _drive(order: Order, connections: list[Postgres]) -> DriveEnd:
    """Drive a run; the connections to the database are used by the next one, too."""
    if not connections:
        connections += [Postgres(order.address), Postgres(order.address)]
        create(connections[0])
    run = find_run(connections[0], order.run)
    if run is None or run.spec.origin is None or run.state in OVER:
        return DriveEnd(True, clean=True)
    powerful = [name for name, value in leaves(run.spec.settings) if not is_confined(name, value)]
    refuse_foreign(order.worker, run.spec, powerful)
    place = private_folder(place_of(order.state_dir, run.id))
    lock = RepoLock.take(place, run.id)  # another process of this machine may still be at it
    try:
        return await _work(order, connections, run, place)
    finally:
        lock.release()


async def _work(order: Order, connections: Sequence[Postgres], run: Run, place: Path) -> DriveEnd:
    repo, carrier = await _settle(order, connections[0], run, place)
    os.environ[VARIABLE] = "1"  # its repository was allowed
    given = {"database_url": order.address, "state_dir": str(place)}
    app = App.load(repo.root, command_line=given, stored=run.spec.settings)
    app = replace(app, made_redactor=app.redactor())
    named = source_here(run, repo.root, place)
    # Another machine could not read what is buffered in files.
    with app.store(buffered=False, opened=connections) as store:
        async with open_portable(app, store, run, repo, named, carrier) as opened:
            _refuse_agents(opened, order.worker.allow_agents)
            with _notifier(opened) as observer:
                ended = await run_session(opened, observer)
    return DriveEnd(True, ended.error.message if ended.error else "", clean=ended.error is None)


async def _settle(order: Order, database: Postgres, run: Run, place: Path) -> tuple[Repository, WorkCarrier]:
    """Make or find the run's clone, with what other machines have done."""
    origin = run.spec.origin
    assert origin is not None
    known, me = find_work(database, run.id), identify_machine(order.state_dir)
    clones = clones_in(order.state_dir)
    if known.place != me:  # what is here, if anything, was left behind
        await end_orphans(place / "runs" / run.id)
        clones.forget(place / "repo")
    repo = await clones.open(origin.url, origin.commit, place / "repo", branch_of(run.id))
    packed = load_work(database, run.id) if known.place != me and known.digest else None
    if packed is not None:
        logger.info("run %s continues with the work of %s", run.id, known.place)
        await unpack(repo, packed)
    return repo, WorkCarrier(run, repo, known, me, database)


def identify_machine(state_dir: Path) -> str:
    """Return the name of this machine, as far as clones are concerned: they are in its state folder."""
    file = private_folder(state_dir / "fleet") / "machine"
    with exclusive(file.with_suffix(".lock")):
        if not file.exists():
            write_atomic(file, f"{identity.host()}/{uuid.uuid4().hex[:12]}".encode())
        return file.read_text()


@contextlib.contextmanager
def _log_into(order: Order) -> Iterator[BinaryIO]:
    """Let everything this process prints go into the log of the run."""
    folder = private_folder(place_of(order.state_dir, order.run))
    with (folder / "segue.log").open("ab", buffering=0) as log:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(log.fileno(), stream.fileno())
        yield cast(BinaryIO, log)


@contextlib.contextmanager
def _notifier(opened: OpenRun) -> Iterator[list[Observer]]:
    """Notify people as the settings of this worker say."""
    found = make_run_notifier(opened.app, opened.spec, lambda _said: None)
    if found is None:
        yield []
        return
    with found as observer:
        yield [observer]


def _refuse_agents(opened: OpenRun, allowed: Sequence[str] | None) -> None:
    if allowed is None:
        return
    wanted = {chosen.agent.name for chain in opened.parts.agents.values() for chosen in chain}
    if refused := sorted(wanted - set(allowed)):
        raise UsageError(
            f"This worker may not launch {', '.join(refused)}.", hint="[worker] allow_agents names its agents"
        )
