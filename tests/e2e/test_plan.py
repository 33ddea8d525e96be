"""The real Claude Code and the real Codex carry plans, with a scripted model on loopback."""

from __future__ import annotations

from tests.e2e.conftest import Real


def test_a_plan_of_three_tasks(real: Real) -> None:
    real.model.plays(
        *(real.write(f"Write {word}\\.", f"{word}.txt", word) for word in ("one", "two", "three")),
        {"reply": "All done."},
    )
    real.place.segue("run", "plan.md")
    assert len(real.place.subjects()) == 3
    assert [(real.place.repo / f"{word}.txt").read_text() for word in ("one", "two", "three")] == [
        "one",
        "two",
        "three",
    ]
    assert [event["ok"] for event in real.events("agent.ended")] == [True] * 3
    assert [event["text"] for event in real.events("agent.text")] == ["All done."] * 3
    assert real.events("agent.usage")
