"""A verdict is computed: nothing but quoted evidence and passing checks makes a PASS, whatever is claimed."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from segue.domain.errors import UnusableAnswer
from segue.domain.options import Options
from segue.domain.proof import CheckResult
from segue.domain.task import Task
from segue.domain.verdict import Action, Criterion, Evidence, Result, Verdict, without_secrets
from segue.judges.checks import ChecksJudge
from segue.judges.verdict import CHOICES, read_answer, verdict_of
from tests.services import make_services

DIFF = "diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -0,0 +1 @@\n+the whole truth stands here\n"
TRUE, MADE_UP = "the whole truth", "an invented line of code"

ENTRIES = st.lists(st.tuples(st.booleans(), st.sampled_from([TRUE, MADE_UP])), min_size=1, max_size=4)
CODES = st.lists(st.sampled_from([0, 0, 1, None]), max_size=3)


def check(number: int, code: int | None) -> CheckResult:
    return CheckResult(f"check {number}", code, "printed")


def task(keys: list[str]) -> Task:
    return Task("1", "Tell", "Tell the truth.", criteria=tuple(Criterion(key, "It is told.") for key in keys))


def said(entries: list[tuple[bool, str]], **more: object) -> tuple[str, list[str]]:
    keys = [f"1/AC{n}" for n in range(len(entries))]
    criteria = [
        {"key": key, "met": met, "evidence": words} for key, (met, words) in zip(keys, entries, strict=True)
    ]
    return json.dumps({"criteria": criteria, "result": "PASS", **more}), keys


@settings(deadline=None)
@given(
    ENTRIES, CODES, st.sampled_from(CHOICES), st.text(max_size=20), st.lists(st.text(max_size=5), max_size=3)
)
def test_pass_needs_every_quote_and_every_check(
    entries: list[tuple[bool, str]], codes: list[int | None], wish: Action, request: str, caveats: list[str]
) -> None:
    text, keys = said(entries, action=wish, request=request, caveats=caveats)
    evidence = Evidence(DIFF, ("f",), tuple(check(n, code) for n, code in enumerate(codes)), "All done!")
    verdict = verdict_of(read_answer(text, keys, actions=True), task(keys), evidence)
    held = [met and words == TRUE for met, words in entries]
    holds = all(held) and all(code == 0 for code in codes)
    assert (verdict.result is Result.PASS) is holds
    assert (verdict.action is Action.PROCEED) is holds
    if not holds:
        assert verdict.action is (Action.RETRY if wish is Action.PROCEED else wish)
        assert verdict.result is (Result.PARTIAL if any(held) else Result.FAIL)
    assert [one.strip() for one in verdict.caveats] == [one.strip() for one in caveats if one.strip()]
    assert verdict.request.strip() == request.strip()


@pytest.mark.parametrize("action", ["STOP", "PANIC", "", None, "proceed", 5])
def test_an_action_that_does_not_exist_cannot_be_used(action: object) -> None:
    text, keys = said([(True, TRUE)], action=action)
    with pytest.raises(UnusableAnswer):
        read_answer(text, keys, actions=True)


@pytest.mark.parametrize("more", [{"action": "PANIC"}, {"action": 5}, {"caveats": "none"}, {"request": []}])
def test_what_a_model_adds_without_being_asked_does_no_harm(more: dict[str, object]) -> None:
    text, keys = said([(True, TRUE)], **more)
    verdict = verdict_of(read_answer(text, keys), task(keys), Evidence(DIFF, ("f",), (), ""))
    assert (verdict.result, verdict.action) == (Result.PASS, Action.PROCEED)


async def _judged(*checks: CheckResult) -> Verdict:
    return await ChecksJudge(Options(), make_services()).judge(
        Task("1", "t", "", build_phase="schema"), Evidence("", (), checks, "")
    )


def test_the_same_check_that_passes_once_and_fails_once_has_failed() -> None:
    verdict = asyncio.run(_judged(check(1, 0), check(1, 1)))
    assert verdict.result is not Result.PASS
    assert verdict.action is Action.RETRY


def test_a_step_without_any_check_cannot_be_judged_by_checks() -> None:
    verdict = asyncio.run(_judged())
    assert (verdict.result, verdict.action) == (Result.FAIL, Action.STOP)
    assert "schema" in verdict.reason


def test_secrets_are_taken_out_of_every_word_of_a_verdict() -> None:
    text, keys = said([(False, "sk-key")], action="SKIP", request="sk-key", caveats=["sk-key"])
    verdict = verdict_of(read_answer(text, keys, actions=True), task(keys), Evidence(DIFF, (), (), ""))
    clean = without_secrets(verdict, lambda words: words.replace("sk-key", "*"))
    assert "sk-key" not in repr(clean)
