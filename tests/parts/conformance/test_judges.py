"""Judges keep the promises of their socket, and the suite notices when one does not."""

from __future__ import annotations

import pytest

from segue.domain.options import Options, read_options
from segue.domain.task import Task
from segue.domain.verdict import Action, CriterionVerdict, Evidence, Result, Verdict
from segue.judges.checks import ChecksJudge
from segue.judges.llm import LlmJudge
from segue.judges.options import JudgeSettings
from segue.parts.conformance.judge import check_judge
from segue.ports import Judge, Problem
from segue.sim.llm.script import LlmEntry
from segue.system.services import Services
from tests.judges.endpoint import KEY, Endpoint, endpoint


def ask(there: Endpoint, services: Services) -> Judge:
    options = {"base_url": there.base_url, "api_key_env": "JUDGE_KEY"}
    return LlmJudge(read_options(JudgeSettings, options), services)


def test_the_model_conforms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", KEY)
    with endpoint(LlmEntry(judge={"default": "hello"})) as there, endpoint(LlmEntry(status=500)) as down:
        check_judge(lambda services: ask(there, services), fails=lambda services: ask(down, services))


def test_the_checks_conform() -> None:
    check_judge(lambda services: ChecksJudge(Options(), services))


class Careless:
    """Breaks every promise it can."""

    name = ""

    def __init__(self, services: Services) -> None:
        self.repo = services.repo

    def check(self) -> list[Problem]:
        return [Problem("never ready")]

    async def judge(self, task: Task, evidence: Evidence) -> Verdict:
        (self.repo / "litter.txt").write_text("litter")
        entries = (CriterionVerdict("FR-001", False, ""),)
        return Verdict(Result.PASS, Action.RETRY if task.criteria else Action.PROCEED, "", entries)


class Hasty(Careless):
    """Passes everything, and answers for one criterion only."""

    async def judge(self, task: Task, evidence: Evidence) -> Verdict:
        if not evidence.checks:
            raise ValueError("no checks")
        return Verdict(Result.PASS, Action.PROCEED, "fine", (CriterionVerdict("FR-001", True, "x"),))


@pytest.mark.parametrize(
    ("kind", "complaints"),
    [
        (
            Careless,
            ["its name is empty", "PASS is followed by RETRY", "litter", "it concluded"],
        ),
        (Hasty, ["criteria are missing"]),
    ],
)
def test_the_suite_notices_broken_promises(kind: type[Careless], complaints: list[str]) -> None:
    with pytest.raises(AssertionError) as caught:
        check_judge(kind, fails=kind)
    for complaint in complaints:
        assert complaint in str(caught.value)
