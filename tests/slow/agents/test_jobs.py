"""Two of the real programs at once, each in a lane of its own."""

from __future__ import annotations

from pathlib import Path

from tests.slow.agents.conftest import Model, environment, make_real

WORDS = ("one", "two", "three")


def test_two_vendors_work_side_by_side(tmp_path: Path, model: Model) -> None:
    """One plans the tasks, the other one does them."""
    planner, worker = (
        make_real("codex", tmp_path / "codex", model),
        make_real("claude", tmp_path / "claude", model),
    )
    worker.place.env |= environment("codex", model.url, tmp_path)
    codex = (planner.place.root / "segue.toml").read_text().partition("[agents.codex]")[2]
    settings = (worker.place.root / "segue.toml").read_text()
    worker.place.config(f'{settings}[agents.codex]\n{codex}[roles]\nplan = "codex:gpt-5.5"\n')
    model.plays(
        *({"match": f"Write {word}\\.", "api": "responses", "reply": f"Write it: {word}."} for word in WORDS),
        *(worker.write(f"Write {word}\\.", f"{word}.txt", word) for word in WORDS),
        {"reply": "All done."},
    )
    worker.place.segue("run", "plan.md", "--flow", "plan", "--review", "none", "--jobs", "3")
    assert [(worker.place.repo / f"{word}.txt").read_text() for word in WORDS] == list(WORDS)
    used = worker.place.rows("select distinct phase, agent from orchestrator_steps where agent is not null")
    assert sorted(used) == [("execute", "claude"), ("plan", "codex")]
