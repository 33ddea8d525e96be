"""The real command lines carry plans, with a scripted model on loopback."""

from __future__ import annotations

import json

import pytest

from tests.e2e.conftest import ACP, Real
from tests.e2e.install import WHICH

BREAKS_THE_RULE = {
    "claude": 'extra_args = ["--dangerously-skip-permissions"]\n'
    'pass_env = ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "IS_SANDBOX"]\n',
    "gemini": 'modes = { plan = "yolo" }\n',
    "opencode": 'env = { OPENCODE_PERMISSION = "{}" }\nmodes = { plan = "build" }\n',
}
"""Options with which an agent writes in plan mode; the sandbox of Codex cannot be talked into it."""


def small_plan(real: Real, task: str) -> str:
    path = real.place.root / "small.md"
    path.write_text(f"## Task 1\n{task}\n")
    return str(path)


def test_a_plan_of_three_tasks(real: Real) -> None:
    words = ["one", "two", "three"]
    real.model.plays(
        *(real.write(f"Write {word}\\.", f"{word}.txt", word) for word in words),
        {"times": 1, "tool_calls": [real.shell("git log --oneline > log.txt")]},
        {"reply": "All done."},
    )
    real.place.segue("run", "plan.md")
    assert len(real.place.subjects()) == 3
    assert [(real.place.repo / f"{word}.txt").read_text() for word in words] == words
    assert "plan" in (real.place.repo / "log.txt").read_text()
    assert [event["ok"] for event in real.events("agent.ended")] == [True] * 3
    assert [event["text"] for event in real.events("agent.text")] == ["All done."] * 3
    names = {event["name"] for event in real.events("agent.tool")}
    assert names == ({"Bash"} if real.name == "codex" else {"Write", "Bash"})
    assert "git log --oneline" in json.dumps([event["input"] for event in real.events("agent.tool")])
    assert len(real.usage()) == 3


def test_nothing_is_written_in_plan_mode(real: Real) -> None:
    real.model.plays(
        real.write("", "sneaky.txt", "x"),
        {"reply": "The plan: write it.", "times": 1},
        real.write("The plan: write it", "one.txt", "one"),
        {"reply": "All done."},
    )
    real.place.segue("run", small_plan(real, "Write one."), "--flow", "plan", "--review", "none")
    assert (real.place.repo / "one.txt").read_text() == "one"
    assert not (real.place.repo / "sneaky.txt").exists()
    assert [event["ok"] for event in real.events("agent.ended")] == [True, True]
    assert "The plan: write it" in json.dumps(real.model.asked()[-1])


@pytest.mark.parametrize("real", BREAKS_THE_RULE, indirect=True)
def test_a_plan_that_writes_is_noticed_and_undone(real: Real) -> None:
    config = (real.place.root / "segue.toml").read_text()
    real.place.config(config + BREAKS_THE_RULE[real.name])
    real.model.plays(real.write("", "sneaky.txt", "x"), {"reply": "The plan: it is written already."})
    plan = small_plan(real, "Write one.")
    # In a sandbox it could not write. Claude refuses root such things, unless it is told that it is in one.
    real.place.segue(
        *("run", plan, "--flow", "plan", "--review", "none", "--isolation", "none"), code=3, IS_SANDBOX="1"
    )
    ((why,),) = real.place.rows(
        "select output->'failure'->>'kind' from orchestrator_steps where phase = 'plan'"
    )
    assert why == "plan_edited"
    assert not (real.place.repo / "sneaky.txt").exists()
    assert "sneaky.txt" in real.place.git("stash", "show", "--include-untracked", "--name-only")


def test_what_is_missing_goes_back_into_the_same_conversation(real: Real) -> None:
    real.place.more_config('checks = [["cat", "one.txt", "two.txt"]]\n')
    real.model.plays(
        real.write("", "one.txt", "one"),
        {"reply": "I wrote one; my lucky number is 7411.", "times": 1},
        real.write("", "two.txt", "two"),
        {"reply": "Now there are two."},
    )
    plan = small_plan(real, "Write one and two.")
    real.place.segue("run", plan, "--flow", "spec", "--judge", "checks")
    assert [event["ok"] for event in real.events("agent.ended")] == [True, True]
    assert "my lucky number is 7411" in json.dumps(real.model.asked()[2])
    told = real.usage()
    # Codex and newer versions of Claude tell what the whole session has used, the others what a launch has.
    apart = real.name in ACP or (real.name == "claude" and WHICH == "oldest")
    launches = told if apart else told[-1:]
    used = "sum(output->'usage'->>'input_tokens'), sum(output->'usage'->>'output_tokens')"
    (counted,) = real.place.rows(f"select {used} from orchestrator_steps")
    assert counted == tuple(
        sum(event[key] for event in launches) for key in ("input_tokens", "output_tokens")
    )


def test_all_tokens_that_were_served_are_counted(real: Real) -> None:
    used = {"input": 1250, "output": 30}
    look = {"times": 1, "tool_calls": [real.shell("true")], "usage": used}
    real.model.plays(
        look, {**real.write("", "one.txt", "one"), "usage": used}, {"reply": "Done.", "usage": used}
    )
    real.place.segue("run", small_plan(real, "Write one."))
    (ended,) = real.events("agent.ended")
    assert (ended["usage"]["input_tokens"], ended["usage"]["output_tokens"]) == (3 * 1250, 3 * 30)
