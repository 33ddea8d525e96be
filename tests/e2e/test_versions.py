"""How versions differ: what `segue doctor` sees of them, and that usage is right in all of them."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import Real
from tests.e2e.install import WHICH


@pytest.mark.thorough
@pytest.mark.parametrize("real", ["claude", "codex"], indirect=True)
def test_doctor_says_how_this_version_behaves(real: Real) -> None:
    rows = {row["what"]: row for row in real.place.json("doctor", code=None)["checks"]}
    seen = rows[f"agent {real.name}"]["agent"]["behaviour"]
    assert "commands run in its sandbox" in seen
    assert {"claude": "Bash", "codex": "exec"}[real.name] in seen
    if real.name == "claude":
        assert ("usage is per launch" in seen) == (WHICH == "oldest")
    asked = len(real.model.asked())
    listed = {row["name"]: row for row in real.place.json("agent", "list")}
    assert listed[real.name]["behaviour"] == seen, "remembered, and nothing was started for it"
    assert len(real.model.asked()) == asked == 0, "it was tried with a model of its own"


@pytest.mark.parametrize("real", ["claude", "codex"], indirect=True)
def test_a_continued_session_counts_only_what_it_used(real: Real) -> None:
    real.place.config(
        'checks = [["sh", "-c", "! ls | grep -q ^one || ls | grep -q ^good"]]\n'
        + (real.place.root / "segue.toml").read_text()
    )
    used = {"usage": {"input": 1000, "output": 10}}
    real.model.plays(
        {**real.write("", "one.txt", "one"), **used},
        {"reply": "Did one.", "times": 1, **used},
        {**real.write("", "good.txt", "good"), **used},
        {"reply": "Did more.", **used},
    )
    real.place.segue("run", "plan.md", "--task", "1", code=None)
    ended = real.events("agent.ended")
    assert [event["usage"]["input_tokens"] for event in ended] == [2000, 2000]
    assert [event["usage"]["output_tokens"] for event in ended] == [20, 20]
