"""What is asked of proofs and cannot be reached is refused before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from segue.domain.errors import UsageError
from segue.domain.job import Role
from segue.runtime.app import App
from segue.runtime.plan import RunPlan, plan_run

PLAN = "## Task 1\n\nDo one thing.\n"
SCENARIO = {"run": "python3 a.py", "stdout": "x"}


def plan(folder: Path, text: str = PLAN, **settings: Any) -> RunPlan:
    (folder / "plan.md").write_text(text)
    app = App.load(folder, None, {"agent": "scripted", "state_dir": str(folder / "state"), **settings})
    return plan_run(app, app.source(str(folder / "plan.md"), folder))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"require": "checked"}, "there are no checks"),
        ({"require": "independent", "checks": ["true"]}, "nobody writes tests that the agent does not see"),
        ({"proof": {"independent": True}}, "independent has no effect"),
        ({"require": "tested", "checks": ["pytest"], "proof": {"mutants": 0}}, "mutants are switched off"),
    ],
)
def test_unreachable_level_is_refused(tmp_path: Path, settings: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        plan(tmp_path, **settings)


@pytest.mark.parametrize("level", ["checked", "tested"])
def test_scenario_makes_a_level_reachable(tmp_path: Path, level: str) -> None:
    assert plan(tmp_path, require=level, proof={"scenarios": [SCENARIO]}).policy.require == level
    text = f'{PLAN}\n```scenario\nrun = "python3 a.py"\n```\n'
    assert plan(tmp_path, text, require=level).policy.require == level


def test_an_exam_that_nobody_writes_is_refused_with_the_setting(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        plan(tmp_path, require="independent", proof={"scenarios": [SCENARIO]})
    assert "independent = true in [proof]" in (caught.value.hint or "")


def test_mistake_in_a_scenario_of_the_plan_is_refused_with_its_task(tmp_path: Path) -> None:
    text = f'{PLAN}\n```scenario\nrun = "python3 a.py"\nprints = "x"\n```\n'
    with pytest.raises(UsageError, match="A scenario of task 1 cannot be used: prints"):
        plan(tmp_path, text)


def test_independent_tests_come_before_the_judge_and_from_somebody_else(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"checks": ["true"], "proof": {"independent": True}}
    found = plan(tmp_path, judged_by="checks", agent="scripted:a,scripted:b", require="independent", **asked)
    assert found.flow.names == ("execute", "check", "independent", "verify")
    assert found.policy.independent
    assert [choice.model for choice in found.chains[Role.EXECUTE]] == ["a", "b"]
    assert [choice.model for choice in found.chains[Role.TEST]] == ["b", "a"]
    chosen = plan(tmp_path, roles={"test": "scripted:c"}, **asked)
    assert [choice.model for choice in chosen.chains[Role.TEST]] == ["c"]


@pytest.mark.parametrize(
    ("settings", "writers"),
    [
        ({"agent": "claude,codex"}, ["codex", "claude"]),
        ({"agent": "cursor,cursor-cloud,codex"}, ["codex", "cursor-cloud", "cursor"]),
        ({"agent": "claude", "judged_by": "agent", "roles": {"verify": "codex:o"}}, ["codex:o", "claude"]),
        ({"agent": "claude", "roles": {"execute": "codex"}}, ["claude", "codex"]),
        ({"agent": "claude", "roles": {"test": "claude:opus"}}, ["claude:opus"]),
    ],
)
def test_exam_is_written_by_another_vendor_where_one_is_named(
    tmp_path: Path, settings: dict[str, Any], writers: list[str]
) -> None:
    found = plan(tmp_path, checks=["true"], proof={"independent": True}, **settings)
    assert [choice.name for choice in found.chains[Role.TEST]] == writers
