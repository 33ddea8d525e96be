"""Several tasks at once: each begins when what it waits for is done, and has a lane of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path

from segue.domain.errors import SegueError
from segue.domain.events import TaskWaiting
from segue.domain.footprint import find_footprint
from segue.domain.kinds import with_kind
from segue.domain.results import EndOutput, SnapshotOutput, read_as
from segue.domain.run import StepState
from segue.domain.schedule import Schedule
from segue.domain.task import Task, TaskKind, TaskStatus, without_secrets
from segue.domain.waits import plan_waits
from segue.flow.context import Lanes, RunContext
from segue.flow.gates import Gates
from segue.flow.lanes import Seat
from segue.flow.scheduler import PendingTasks, Tally, plan_tasks
from segue.flow.task import run_task
from segue.flow.words import hear_of

_MOST_LANES = 2
"""How many lanes there may be for each seat: a task that waits for its turn or a limit keeps its lane."""
_SHOWN = 6
"""How many of the tasks that one waits for are named."""


async def run_side_by_side(context: RunContext, chosen: Collection[str], lanes: Lanes) -> None:
    """Run every pending task (of the chosen ones), several at once; raises NeedsHuman like `run_tasks`."""
    await plan_tasks(context)
    tally = Tally(context)
    await SideBySide(context, PendingTasks(context, chosen), lanes, tally).run()
    tally.conclude()


class SideBySide:
    """Works on all tasks that can be worked on, as many at once as there are seats.

    A task that fails blocks only what waits for it. When something ends the whole run, such as a budget, no
    other task is begun, and those at work are finished first.
    """

    def __init__(self, context: RunContext, pending: PendingTasks, lanes: Lanes, tally: Tally) -> None:
        self._context = context
        self._pending = pending
        self._lanes = lanes
        self._tally = tally
        self._gates = Gates(context)
        self._tasks: dict[str, Task] = {}
        self._places: dict[str, int] = {}
        self._schedule = Schedule((), {})
        self._held, self._begun = _find_lanes(context)
        self._at_work: dict[asyncio.Task[EndOutput], Task] = {}
        self._roots: dict[str, Path] = {}
        self._error: SegueError | None = None

    async def run(self) -> None:
        """Work until nothing is left to begin and nobody works any more."""
        self._read()
        await self._tell_waits()
        try:
            await self._begin()
            while self._at_work:
                await self._wait()
                await self._begin()
        finally:
            for work in self._at_work:
                work.cancel()
            await asyncio.gather(*self._at_work, return_exceptions=True)
        if self._error is not None:
            raise self._error

    def _read(self) -> None:
        """Take over the tasks as the source has them now; those at work stay at work."""
        kinds = self._context.policy.kinds
        tasks = [with_kind(task, kinds) for task in self._pending.read()]
        self._tasks = {task.key: task for task in tasks}
        self._places = {task.key: place for place, task in enumerate(tasks)}
        waits = plan_waits(tasks, touched=self._context.touched)
        wanted = [task.key for task in tasks if self._pending.wants(task)]
        over = {task.key for task in tasks if task.status is not TaskStatus.PENDING}.difference(wanted)
        self._schedule.update(wanted, waits, over)
        self._begun = [key for key in self._begun if key in wanted]

    async def _tell_waits(self) -> None:
        """Say of every task that cannot begin yet what it waits for."""
        for key in self._tasks:
            waits = self._schedule.waiting(key)
            if waits is not None:
                await self._context.emit(TaskWaiting(key, waits.keys[:_SHOWN], waits.why))

    async def _begin(self) -> None:
        """Begin as many tasks as there are free seats."""
        reopened, _ = await self._tally.reopen()
        for key in reopened:
            self._schedule.reopen(key)
        if reopened or self._pending.is_changed:
            self._read()
        for key, blocked in self._schedule.newly_blocked():
            await self._tally.block(self._tasks[key], blocked)
        while self._may_begin and (task := self._next()) is not None:
            try:
                await self._gates.stop_before(task)
            except SegueError as gate:
                self._error = self._error or gate
                return
            waited = self._schedule.begin(task.key)
            footprint = find_footprint(task, self._context.touched.get(task.key, ()))
            seat = await self._lanes.seats.take(task.key, self._places[task.key], footprint)
            self._at_work[asyncio.create_task(self._work(task, seat, waited))] = task

    @property
    def _may_begin(self) -> bool:
        seats = self._lanes.seats
        is_room = seats.is_free and len(self._at_work) < _MOST_LANES * seats.number
        return is_room and self._error is None and not self._tally.is_enough

    def _next(self) -> Task | None:
        """Return the first task that may begin; those that another process has begun come first."""
        ready = [self._begun.pop(0)] if self._begun else self._schedule.ready(1)
        return self._tasks[ready[0]] if ready else None

    async def _work(self, task: Task, seat: Seat, waited: tuple[str, str]) -> EndOutput:
        context = self._context
        try:
            if task.kind is not TaskKind.HUMAN:
                context = await self._lanes.open(context, self._lane(task.key), seat)
            self._roots[task.key] = context.workspace.root
            return await run_task(context, without_secrets(task, context.redact), waited)
        finally:
            seat.leave()

    def _lane(self, key: str) -> int:
        """Return the lane of a task: the one with its work, or the first that nobody needs."""
        if key not in self._held:
            taken = set(self._held.values())
            self._held[key] = next(number for number in range(1, len(taken) + 2) if number not in taken)
        return self._held[key]

    async def _wait(self) -> None:
        """Wait until a task ends or gives its seat away, or a person says something about one that failed."""
        seats = self._lanes.seats
        seats.freed.clear()
        others: list[asyncio.Task[object]] = [asyncio.create_task(seats.freed.wait())]
        if failed := self._tally.may_reopen:
            others.append(asyncio.create_task(hear_of(self._context, failed)))
        try:
            ended, _ = await asyncio.wait({*self._at_work, *others}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for other in others:
                other.cancel()
            await asyncio.gather(*others, return_exceptions=True)
        for work in [one for one in self._at_work if one in ended]:
            self._end(self._at_work.pop(work), work)

    def _end(self, task: Task, work: asyncio.Task[EndOutput]) -> None:
        try:
            ending = work.result()
        except SegueError as error:
            self._error = self._error or error
            return
        self._tally.add(task, ending, self._roots.get(task.key))
        if ending.replanned:
            self._pending.put_back(task.key)
            self._schedule.end(task.key, "again")
        elif ending.done:
            self._schedule.end(task.key, "done")
        else:  # what it left stays in its lane
            self._schedule.end(task.key, "asked" if task.kind is TaskKind.HUMAN else "failed")
            return
        self._held.pop(task.key, None)


def _find_lanes(context: RunContext) -> tuple[dict[str, int], list[str]]:
    """Return the lanes that hold work of tasks which are not done, and the tasks that were cut off."""
    held: dict[str, int] = {}
    cut_off: dict[str, None] = {}
    for step in context.journal.steps("task/"):
        if step.task is None:
            continue
        if step.phase == "base" and (lane := read_as(SnapshotOutput, step.output).lane):
            held[step.task] = lane
            cut_off[step.task] = None
    for task in list(cut_off):
        ended = context.journal.state(f"task/{task}/end")
        if ended is not None:
            del cut_off[task]
        if ended is StepState.DONE:
            del held[task]
    return held, list(cut_off)
