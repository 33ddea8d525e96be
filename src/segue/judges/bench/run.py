"""Runs the bench: every case several times, a few at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from segue.domain.errors import JudgeFailed, ServiceAway
from segue.judges.bench.cases import Case, cases
from segue.judges.bench.report import BenchReport, JudgedCase
from segue.ports import Judge
from segue.system.patience import outlast


async def run_bench(
    judge: Judge,
    repeat: int = 1,
    concurrency: int = 4,
    progress: Callable[[JudgedCase], None] | None = None,
    patience: float = 0.0,
) -> BenchReport:
    """Let the judge decide all cases; its own failures are errors, anything else ends the bench."""
    turns = asyncio.Semaphore(concurrency)

    async def decide(case: Case) -> JudgedCase:
        async with turns:
            judged = await _decide(judge, case, patience)
        if progress is not None:
            progress(judged)
        return judged

    every = [case for case in cases() for _ in range(repeat)]
    waiting: list[asyncio.Task[JudgedCase]] = []
    try:
        async with asyncio.TaskGroup() as group:
            waiting = [group.create_task(decide(case)) for case in every]
    except ExceptionGroup as several:
        # A wrong key fails every case alike: the first failure says it all.
        raise several.exceptions[0] from None
    return BenchReport(tuple(task.result() for task in waiting))


async def _decide(judge: Judge, case: Case, patience: float) -> JudgedCase:
    try:
        verdict = await outlast(lambda: judge.judge(case.task, case.evidence), patience)
    except (JudgeFailed, ServiceAway) as error:
        return JudgedCase(case, None, error.message)
    return JudgedCase(case, verdict.result, verdict.reason)
