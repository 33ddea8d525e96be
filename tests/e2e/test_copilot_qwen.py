"""The real Copilot CLI and Qwen Code: work and tokens; test_vendors has the rest."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import Real

BOTH = pytest.mark.parametrize("real", ["copilot", "qwen"], indirect=True)


@BOTH
def test_a_plan_is_done_and_the_tokens_are_those_that_were_served(real: Real) -> None:
    usage = {"input": 1000, "output": 20}
    for word in ("one", "two", "three"):
        real.model.plays(
            {**real.write(f"Write {word}", f"{word}.txt", word), "usage": usage},
            {"reply": f"Did {word}.", "usage": usage},
        )
        real.place.segue("run", "plan.md", "--task", str(["one", "two", "three"].index(word) + 1))
    assert real.place.subjects() == ["Task 1: Write one.", "Task 2: Write two.", "Task 3: Write three."]
    assert (real.place.repo / "three.txt").read_text() == "three"
    served = {"input_tokens": 2000, "output_tokens": 40, "cost_usd": None, "cached_tokens": None}
    assert [end["usage"] for end in real.events("agent.ended")] == [served] * 3
