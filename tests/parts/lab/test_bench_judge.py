"""`segue bench judge` against scripted models: a perfect one, a credulous one, broken ones."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import pytest

from segue.parts.lab.bench.judge import Case, cases
from segue.sim.llm.script import LlmEntry
from tests.cli.place import Place
from tests.judges.endpoint import Endpoint, endpoint

CASES = cases()
PAIRS = len(CASES) // 2


def perfect() -> list[LlmEntry]:
    """Accepts the work that holds a line which only the correct twin has, and nothing else."""
    pairs = zip(CASES[::2], CASES[1::2], strict=True)
    accepted = [LlmEntry(match=_only(good, bad), judge={"default": True}) for good, bad in pairs]
    return [*accepted, LlmEntry(judge={"default": False})]


def _only(good: Case, bad: Case) -> str:
    known = set(bad.evidence.diff.splitlines())
    lines = [line for line in good.evidence.diff.splitlines() if line not in known and len(line) > 8]
    return f"(?m)^{re.escape(lines[-1])}$"


def bench(place: Place, there: Endpoint, *args: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    place.env |= {"SEGUE_JUDGE__BASE_URL": there.base_url, "OPENAI_API_KEY": "sk-for-the-bench"}
    return place.segue("bench", "judge", *args, code=code)


def measured(place: Place, *entries: LlmEntry) -> Any:
    with endpoint(*entries) as there:
        return json.loads(bench(place, there, "--json").stdout)["data"]


def test_a_perfect_judge(place: Place) -> None:
    with endpoint(*perfect()) as there:
        done = bench(place, there, "--model", "wise", "--repeat", "2")
        assert {body["model"] for body in there.bodies()} == {"wise"}
        assert len(there.bodies()) == len(CASES) * 2
    (total,) = [line for line in done.stdout.splitlines() if line.startswith("all ")]
    assert total.split()[1] == f"{PAIRS * 2}/{PAIRS * 2}"
    assert f"0/{PAIRS * 2}" in total
    assert "The bar of 80% detection is met: the whole interval is above it." in done.stdout
    assert "missing-migration/defective: FAIL" in done.stderr


def test_a_judge_that_says_yes_to_everything_detects_what_only_comments_claim(place: Place) -> None:
    report = measured(place, LlmEntry(judge={"default": True}))
    assert report["detection"]["count"] <= 2
    assert report["false_alarms"]["rate"] == 0
    assert "is not met: the whole interval is below it" in report["judgement"]
    assert len(report["wrong"]) == report["detection"]["total"] - report["detection"]["count"]


@pytest.mark.thorough
def test_made_up_quotes_convince_nobody(place: Place) -> None:
    report = measured(place, *(LlmEntry(match=_heading(case), reply=_lie(case)) for case in CASES[::2]))
    assert (report["detection"]["rate"], report["false_alarms"]["rate"]) == (1, 1)


def _heading(case: Case) -> str:
    return re.escape(f"{case.task.key}: {case.task.title}")


def _lie(case: Case) -> dict[str, Any]:
    quote = "def all_of_it() -> None: done()"
    entries = [{"key": criterion.key, "met": True, "evidence": quote} for criterion in case.task.criteria]
    return {"criteria": entries, "reasoning": "It looks complete."}


@pytest.mark.thorough
def test_broken_answers_are_errors_of_the_judge_and_no_detection(place: Place) -> None:
    broken = [LlmEntry(match=words, reply="PASS") for words in (_heading(CASES[0]), "cannot be used")]
    report = measured(place, *broken, *perfect())
    assert [failure["case"] for failure in report["failures"]] == [CASES[0].name, CASES[1].name]
    assert report["errors"] == 2
    assert report["detection"]["total"] == report["false_alarms"]["total"] == PAIRS - 1
    assert (report["detection"]["rate"], report["false_alarms"]["rate"]) == (1, 0)


@pytest.mark.parametrize(("status", "code"), [(401, 4), (404, 3)])
def test_a_judge_that_never_answers_is_no_measurement(place: Place, status: int, code: int) -> None:
    with endpoint(LlmEntry(status=status, reply="not you")) as there:
        done = bench(place, there, code=code)
    assert "not you" in done.stderr
    assert done.stdout == ""
