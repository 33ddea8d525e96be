"""The build flow at its edges: odd verdicts, plans that vanish, services that are down, every judge."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cli.place import Place
from tests.cli.test_build import GOAL, events, keys, plan, prompt_of, step, tasks
from tests.fakes.model import serve_model
from tests.shebang import shebang


def on_verify(task: int, verdict: str, attempt: int | None = None) -> str:
    """A script entry for the judge."""
    when = "" if attempt is None else f"attempt = {attempt}\n"
    return f'[[on]]\nphase = "verify"\ntask = {task}\n{when}verdict = {{ {verdict} }}\n'


@contextmanager
def judging(place: Place, *entries: dict[str, Any]) -> Iterator[None]:
    with serve_model(*entries) as model:
        place.more_config(f'judged_by = "llm"\njudge = {{ base_url = "{model.base_url}" }}\n')
        place.env["OPENAI_API_KEY"] = "sk-test-of-the-judge"
        yield


# ---- verdicts


def test_what_has_passed_goes_on_whatever_the_judge_wishes(place: Place) -> None:
    action = "WEB_SEARCH"
    place.script(plan(step("a")) + on_verify(1, f'action = "{action}", request = "because"'))
    place.segue("run", GOAL)
    assert tasks(place) == {"1": "done"}
    assert [key for key in keys(place, "1") if key.startswith(("search", "replan", "resolve"))] == []


# ---- diagnostics


@pytest.mark.parametrize(
    ("program", "code", "told"),
    [
        ("print('x' * 10_000_000); print('the end')", 0, "the end"),
        ("import time; time.sleep(600)", None, "did not end within 1 s"),
    ],
)
def test_a_diagnostic_is_bounded(place: Place, program: str, code: int | None, told: str) -> None:
    tool = place.root / "home" / "bin" / "pytest"
    tool.parent.mkdir()
    tool.write_text(f"{shebang()}\n{program}\n")
    tool.chmod(0o755)
    place.env["PATH"] = f"{tool.parent}:{place.env['PATH']}"
    place.script(
        plan(step("a")) + on_verify(1, 'unmet = "all", action = "RUN_DIAGNOSTIC", request = "pytest"', 1)
    )
    place.more_config("diagnostics.timeout = 1\n" if code is None else "")
    place.segue("run", GOAL)
    (event,) = events(place, "diagnostic")
    assert (event["allowed"], event["exit_code"]) == (True, code)
    assert told in event["output"]
    assert len(event["output"]) <= 32 * 1024
    assert told in prompt_of(place, "task/1/resolve/1")


# ---- judges


def test_a_model_judges_and_chooses_what_follows(place: Place) -> None:
    no = {"criteria": [{"key": "task", "met": False, "evidence": "nothing"}], "reasoning": "no"}
    asked = {**no, "action": "RUN_DIAGNOSTIC", "request": "rm -rf .", "caveats": []}
    yes = {"key": "task", "met": True, "evidence": "Done by the scripted agent"}
    well = {"criteria": [yes], "reasoning": "ok", "action": "PROCEED", "request": "", "caveats": []}
    place.script(plan(step("a")))
    with judging(place, {"reply": asked, "times": 1}, {"reply": well}):
        place.segue("run", GOAL)
    assert tasks(place) == {"1": "done"}
    (event,) = events(place, "diagnostic")
    assert not event["allowed"]
    assert place.rows("select count(*) from orchestrator_steps where phase = 'verify'") == [(2,)]


def test_every_round_is_committed_for_the_judge_to_see(place: Place) -> None:
    commit = "task"
    place.script(
        '[[on]]\nphase = "resolve"\nwrite = { "mended.txt" = "mended at last" }\n'
        + plan(step("a"))
        + on_verify(1, 'unmet = "all"', 1)
    )
    place.more_config(f'commit = "{commit}"\n')
    place.segue("run", GOAL)
    assert place.subjects() == ["Task 1: Make a", "Task 1: fix 1"]
    assert place.git("status", "--porcelain") == ""
