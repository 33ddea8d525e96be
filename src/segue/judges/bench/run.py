"""Runs the bench: every case so many times, a few at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from segue.domain.errors import JudgeFailed
from segue.judges.bench.cases import Case, cases
from segue.judges.bench.report import Judged, Report
from segue.ports import Judge


async def run_bench(
    judge: Judge,
    repeat: int = 1,
    concurrency: int = 4,
    progress: Callable[[Judged], None] | None = None,
    chosen: Sequence[Case] | None = None,
) -> Report:
    """Let the judge decide all cases; its own failures are errors, anything else ends the bench."""
    turns = asyncio.Semaphore(concurrency)

    async def decide(case: Case) -> Judged:
        async with turns:
            judged = await _decided(judge, case)
        if progress is not None:
            progress(judged)
        return judged

    every = [case for case in (cases() if chosen is None else chosen) for _ in range(repeat)]
    waiting: list[asyncio.Task[Judged]] = []
    try:
        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(decide(case)) for case in every]
    except* Exception as several:
        # A wrong key fails every case alike: the first failure says it all.
        raise several.exceptions[0] from None
    return Report(tuple(task.result() for task in waiting))


async def _decided(judge: Judge, case: Case) -> Judged:
    try:
        verdict = await judge.judge(case.task, case.evidence)
    except JudgeFailed as error:
        return Judged(case, None, error.message)
    return Judged(case, verdict.result, verdict.reason)
