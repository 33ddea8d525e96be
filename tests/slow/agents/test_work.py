"""The real programs do the tasks of a plan, with a scripted model on loopback."""

from __future__ import annotations

import json

import pytest

from tests.slow.agents.conftest import Real

BREAKS_THE_RULE = {
    "claude": 'extra_args = ["--dangerously-skip-permissions"]\n'
    'pass_env = ["ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "IS_SANDBOX"]\n',
    "gemini": 'modes = { plan = "yolo" }\n',
}
"""Options with which an agent writes in plan mode; the sandbox of Codex cannot be talked into it."""


def small_plan(real: Real, task: str) -> str:
    path = real.place.root / "small.md"
    path.write_text(f"## Task 1\n{task}\n")
    return str(path)


def test_plan_of_three_tasks_is_done(real: Real) -> None:
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
    assert [event["text"] for event in real.events("agent.text")].count("All done.") == 3
    names = {event["name"] for event in real.events("agent.tool")}
    assert names >= ({"Bash"} if real.name == "codex" else {"Write", "Bash"})
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
def test_plan_that_writes_is_undone(real: Real) -> None:
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


@pytest.mark.parametrize("real", ["claude", "codex", "gemini"], indirect=True)
def test_fix_continues_the_conversation_and_all_tokens_count(real: Real) -> None:
    real.place.more_config('checks = [["cat", "one.txt", "two.txt"]]\n')
    used = {"usage": {"input": 1000, "output": 10}}
    real.model.plays(
        {**real.write("", "one.txt", "one"), **used},
        {"reply": "I wrote one; my lucky number is 7411.", "times": 1, **used},
        {**real.write("", "two.txt", "two"), **used},
        {"reply": "Now there are two.", **used},
    )
    plan = small_plan(real, "Write one and two.")
    real.place.segue("run", plan, "--flow", "spec", "--judge", "checks")
    assert [event["ok"] for event in real.events("agent.ended")] == [True, True]
    assert "my lucky number is 7411" in json.dumps(real.model.asked()[-1])
    usage = [event["usage"] for event in real.events("agent.ended")]
    assert [(one["input_tokens"], one["output_tokens"]) for one in usage] == [(2000, 20)] * 2
