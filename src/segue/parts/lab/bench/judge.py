"""The bench of the judge: small pieces of work, each right once and wrong once, and how many it catches."""

from __future__ import annotations

import asyncio
import tomllib
from collections.abc import Callable, Iterable
from importlib.resources import files
from typing import Any

import msgspec
from msgspec import Struct

from segue.domain.errors import JudgeFailed, ServiceAway
from segue.domain.proof import CheckResult
from segue.domain.task import Task
from segue.domain.verdict import Criterion, Evidence, Result
from segue.domain.workspace import split_diff
from segue.parts.lab.reports.statistics import Proportion, single_cases
from segue.ports import Judge
from segue.system.patience import outlast


class Case(Struct, frozen=True):
    """One piece of work to be judged."""

    name: str
    kind: str
    """The flaw of this case, or of its twin."""
    language: str
    defective: bool
    task: Task
    evidence: Evidence


def cases() -> list[Case]:
    """Every case, the correct one before its defective twin."""
    folder = files("segue.parts.lab.bench").joinpath("judge_cases")
    found: list[Case] = []
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".toml"):
            found += _twins(file.name.removesuffix(".toml"), tomllib.loads(file.read_text("utf-8")))
    return found


def _twins(name: str, data: dict[str, Any]) -> list[Case]:
    criteria = tuple(Criterion(item["key"], item["text"]) for item in data["task"]["criteria"])
    task = Task(name, data["task"]["title"], data["task"]["text"], criteria=criteria)
    return [
        Case(f"{name}/{twin}", data["kind"], data["language"], twin == "defective", task, _work(data[twin]))
        for twin in ("correct", "defective")
    ]


def _work(data: dict[str, Any]) -> Evidence:
    paths = tuple(file.path for file in split_diff(data["diff"]))
    return Evidence(
        data["diff"],
        paths,
        msgspec.convert(data.get("checks", ()), tuple[CheckResult, ...]),
        data["summary"],
    )


BAR = 0.8
"""The share of wrong work that a judge should catch."""


class JudgedCase(Struct, frozen=True):
    """The judge's answer for a case: a result, or why there is none."""

    case: Case
    result: Result | None
    reason: str

    @property
    def rejected(self) -> bool:
        """True if the work was not accepted."""
        return self.result is not Result.PASS


class BenchReport(Struct, frozen=True):
    """The outcome of a bench."""

    judged: tuple[JudgedCase, ...]

    @property
    def detection(self) -> Proportion:
        """How much of the wrong work was caught."""
        return _count_rejected(judged for judged in self.judged if judged.case.defective)

    @property
    def false_alarms(self) -> Proportion:
        """How much of the right work was rejected."""
        return _count_rejected(judged for judged in self.judged if not judged.case.defective)

    @property
    def errors(self) -> tuple[JudgedCase, ...]:
        """Cases without a verdict; they count in no rate."""
        return tuple(judged for judged in self.judged if judged.result is None)

    @property
    def wrong(self) -> tuple[JudgedCase, ...]:
        """Cases that were judged wrongly."""
        return tuple(
            judged
            for judged in self.judged
            if judged.result is not None and judged.rejected is not judged.case.defective
        )

    def by_kind(self) -> dict[str, BenchReport]:
        """The same, for each kind of defect."""
        kinds = dict.fromkeys(judged.case.kind for judged in self.judged)
        return {kind: BenchReport(tuple(j for j in self.judged if j.case.kind == kind)) for kind in kinds}

    def judgement(self) -> str:
        """Say whether the bar is met, as far as the interval can show."""
        share, (low, high) = self.detection.value, self.detection.limits()
        if share is None:
            return "Nothing was measured: no defective case has a verdict."
        if low >= BAR:
            return f"The bar of {BAR:.0%} detection is met: the whole interval is above it."
        if share >= BAR:
            return f"The bar of {BAR:.0%} detection is met as measured; the interval reaches below it."
        if high >= BAR:
            return f"The bar of {BAR:.0%} detection is not met as measured; the interval reaches it."
        return f"The bar of {BAR:.0%} detection is not met: the whole interval is below it."


def _count_rejected(judged: Iterable[JudgedCase]) -> Proportion:
    answered = [one for one in judged if one.result is not None]
    return single_cases(sum(one.rejected for one in answered), len(answered))


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
