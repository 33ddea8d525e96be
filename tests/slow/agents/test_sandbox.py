"""The real programs work in the sandbox, and what they try outside of the work tree fails."""

from __future__ import annotations

import pytest

from tests.slow.agents.conftest import Real


@pytest.mark.parametrize("sandbox", ["bwrap standard", "landlock strict"])
@pytest.mark.parametrize("real", ["claude", "codex", "gemini", "opencode"], indirect=True)
def test_task_is_done_in_the_sandbox(real: Real, sandbox: str) -> None:
    isolation, strength = sandbox.split()
    config = (real.place.root / "segue.toml").read_text()
    real.place.config(f'{config}[sandbox]\nstrength = "{strength}"\n')
    key = real.place.root / "home" / ".ssh" / "id_ed25519"
    key.parent.mkdir()
    key.write_text("private")
    outside = real.place.root / "outside"
    outside.mkdir()
    steal = (
        f"cat {key} > stolen.txt; touch {outside}/planted; git --no-optional-locks log --oneline > log.txt"
    )
    real.model.plays(
        real.write("Write one", "one.txt", "one"),
        {"times": 1, "tool_calls": [real.shell(steal)]},
        {"reply": "All done."},
    )
    real.place.segue("run", "plan.md", "--task", "1", "--isolation", isolation)
    assert (real.place.repo / "one.txt").read_text() == "one"
    assert (real.place.repo / "stolen.txt").read_text() == ""
    assert "plan" in (real.place.repo / "log.txt").read_text()
    assert not list(outside.iterdir())
    assert real.events("run.started")[-1]["isolation"] == sandbox
