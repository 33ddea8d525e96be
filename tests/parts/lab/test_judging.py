"""The bench: its cases are sound, its rates count what they say, and it tells a good judge from a bad one."""

from __future__ import annotations

import asyncio
import subprocess
from collections import Counter

import pytest

from segue.domain.errors import CredentialsError, JudgeFailed
from segue.domain.task import Task
from segue.domain.verdict import Action, Evidence, Result, Verdict
from segue.parts.lab.bench.judge import BenchReport, Case, JudgedCase, cases, run_bench
from segue.parts.lab.reports.statistics import single_cases
from segue.ports import Problem

CASES = cases()
KINDS = {
    *("missing file", "wrong status code", "test deleted", "half done", "plausible but empty"),
    *("criterion contradicted", "wrong file", "hard-coded answer", "comment instead of code"),
    *("only tests changed", "summary claims more", "contested test", "forged evidence"),
}


def test_there_are_enough_pairs_of_every_kind() -> None:
    assert {case.kind for case in CASES} == KINDS
    assert len({case.language for case in CASES}) >= 6
    defective = [case for case in CASES if case.defective]
    assert len(defective) * 2 == len(CASES)
    # A judge that catches everything must be able to show it: the interval has to clear the bar.
    assert single_cases(len(defective), len(defective)).limits()[0] > 0.8


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_is_sound(case: Case) -> None:
    parsed = subprocess.run(
        ["git", "apply", "--numstat", "-"],
        input=case.evidence.diff,
        capture_output=True,
        text=True,
        check=True,
    )
    named = [line.split("\t")[2] for line in parsed.stdout.splitlines()]
    assert tuple(named) == case.evidence.files
    assert case.task.criteria
    assert max(Counter(criterion.key for criterion in case.task.criteria).values()) == 1
    assert case.evidence.summary
    # What a check finds by itself is no test of the judge.
    assert all(check.exit_code == 0 for check in case.evidence.checks)


def test_twins_differ_in_the_work_alone() -> None:
    for correct, defective in zip(CASES[::2], CASES[1::2], strict=True):
        assert correct.task == defective.task
        assert (correct.defective, defective.defective) == (False, True)
        assert correct.evidence.diff != defective.evidence.diff


class Judge:
    """A judge that says what it is told, and counts how many cases it has at once."""

    name = "told"

    def __init__(self, accept: object = True, error: Exception | None = None) -> None:
        self.accept, self.error = accept, error
        self.now = self.most = 0

    def check(self) -> list[Problem]:
        return []

    async def judge(self, task: Task, evidence: Evidence) -> Verdict:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        self.now -= 1
        if self.error is not None and "README" in evidence.diff:
            raise self.error
        accepted = self.accept if isinstance(self.accept, bool) else evidence in CORRECT
        result = Result.PASS if accepted else Result.FAIL
        return Verdict(result, Action.PROCEED, "as told")


CORRECT = [case.evidence for case in CASES if not case.defective]
PAIRS = len(CORRECT)


@pytest.mark.parametrize(
    ("accept", "caught", "alarms"), [("the right ones", PAIRS, 0), (True, 0, 0), (False, PAIRS, PAIRS)]
)
def test_judges_are_told_apart(accept: object, caught: int, alarms: int) -> None:
    report = asyncio.run(run_bench(Judge(accept), repeat=3))
    assert report.detection == single_cases(caught * 3, PAIRS * 3)
    assert report.false_alarms == single_cases(alarms * 3, PAIRS * 3)
    assert len(report.wrong) == (PAIRS - caught + alarms) * 3
    assert report.errors == ()
    kinds = report.by_kind()
    assert set(kinds) == KINDS
    assert sum(part.detection.n for part in kinds.values()) == PAIRS * 3


def test_failures_of_the_judge_are_errors_and_count_in_no_rate() -> None:
    report = asyncio.run(run_bench(Judge(error=JudgeFailed("down"))))
    failed = [case for case in CASES if "README" in case.evidence.diff]
    assert 0 < len(failed) == len(report.errors)
    assert report.detection.n + report.false_alarms.n == len(CASES) - len(failed)
    assert report.errors[0].reason == "down"


def test_a_wrong_key_ends_the_bench() -> None:
    with pytest.raises(CredentialsError, match="rejected"):
        asyncio.run(run_bench(Judge(error=CredentialsError("rejected"))))


@pytest.mark.parametrize("concurrency", [1, 3])
def test_no_more_than_so_many_at_once(concurrency: int) -> None:
    judge = Judge()
    told: list[JudgedCase] = []
    asyncio.run(run_bench(judge, concurrency=concurrency, progress=told.append))
    assert judge.most == concurrency
    assert len(told) == len(CASES)


@pytest.mark.parametrize(
    ("caught", "total", "said"),
    [
        (40, 40, "is met: the whole interval"),
        (9, 10, "is met as measured; the interval reaches below"),
        (7, 10, "is not met as measured; the interval reaches it"),
        (10, 40, "is not met: the whole interval"),
        (0, 0, "Nothing was measured"),
    ],
)
def test_the_bar_is_judged_by_the_interval(caught: int, total: int, said: str) -> None:
    case = next(case for case in CASES if case.defective)
    results = [Result.FAIL] * caught + [Result.PASS] * (total - caught)
    assert said in BenchReport(tuple(JudgedCase(case, result, "") for result in results)).judgement()
