"""The real Claude Code and the real Codex carry plans, with a scripted model on loopback."""

from __future__ import annotations

import json

from tests.e2e.conftest import Real


def test_they_are_ready(real: Real) -> None:
    found = {agent["name"]: agent for agent in real.place.json("agent", "list")}
    assert (found[real.name]["ready"], found[real.name]["problems"]) == (True, [])


def test_a_plan_of_three_tasks(real: Real) -> None:
    words = ["one", "two", "three"]
    real.model.plays(
        *(real.write(f"Write {word}\\.", f"{word}.txt", word) for word in words), {"reply": "All done."}
    )
    real.place.segue("run", "plan.md")
    assert len(real.place.subjects()) == 3
    assert [(real.place.repo / f"{word}.txt").read_text() for word in words] == words
    assert [event["ok"] for event in real.events("agent.ended")] == [True] * 3
    assert [event["text"] for event in real.events("agent.text")] == ["All done."] * 3
    names = {"claude": "Write", "codex": "Bash"}
    assert {event["name"] for event in real.events("agent.tool")} == {names[real.name]}
    (used,) = real.place.rows("select count(*) from orchestrator_events where type = 'agent.usage'")
    assert used == (3,)


def test_nothing_is_written_in_plan_mode(real: Real) -> None:
    (real.place.root / "small.md").write_text("## Task 1\nWrite one.\n")
    real.model.plays(
        real.write("", "sneaky.txt", "x"),
        {"reply": "The plan: write it.", "times": 1},
        real.write("The plan: write it", "one.txt", "one"),
        {"reply": "All done."},
    )
    real.place.segue("run", str(real.place.root / "small.md"), "--flow", "plan", "--review", "none")
    assert (real.place.repo / "one.txt").read_text() == "one"
    assert not (real.place.repo / "sneaky.txt").exists()
    assert [event["ok"] for event in real.events("agent.ended")] == [True, True]
    assert "The plan: write it" in json.dumps(real.model.asked()[-1])


def test_what_is_missing_goes_back_into_the_same_conversation(real: Real) -> None:
    (real.place.root / "small.md").write_text("## Task 1\nWrite one and two.\n")
    real.place.more_config('checks = [["cat", "one.txt", "two.txt"]]\n')
    real.model.plays(
        real.write("", "one.txt", "one"),
        {"reply": "I wrote one; my lucky number is 7411.", "times": 1},
        real.write("", "two.txt", "two"),
        {"reply": "Now there are two."},
    )
    real.place.segue("run", str(real.place.root / "small.md"), "--flow", "spec", "--judge", "checks")
    assert [event["ok"] for event in real.events("agent.ended")] == [True, True]
    assert "my lucky number is 7411" in json.dumps(real.model.asked()[2])
    used = "sum(output->'usage'->>'input_tokens'), sum(output->'usage'->>'output_tokens')"
    total = real.events("agent.usage")[-1]
    counted = real.place.rows(f"select {used} from orchestrator_steps")
    assert counted == [(total["input_tokens"], total["output_tokens"])]
