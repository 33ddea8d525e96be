"""Two of the real command lines at once, each in a lane of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Model, Real, environment, make_real

WORDS = ("one", "two", "three")
SLOW: dict[str, Any] = {"delay": 1.0}
"""Long enough for the other one to start."""


def orders(real: Real) -> list[str]:
    """What happened to tasks and agents, in order."""
    kinds = "('task.started', 'agent.started', 'agent.ended')"
    sql = f"select type from orchestrator_events where type in {kinds} order by seq"
    return [kind for (kind,) in real.place.rows(sql)]


@pytest.mark.thorough
@pytest.mark.parametrize("real", ["claude", "codex"], indirect=True)
def test_two_agents_work_at_once_where_the_repository_is(real: Real) -> None:
    """They are told the repository's own path, and each finds its lane there."""
    real.model.plays(
        *({**real.write(f"Write {word}\\.", f"{word}.txt", word), **SLOW} for word in WORDS),
        {"reply": "All done."},
    )
    real.place.segue("run", "plan.md", "--jobs", "2")
    assert orders(real).index("agent.ended") > orders(real).index("agent.started") + 1, "one after the other"
    assert [(real.place.repo / f"{word}.txt").read_text() for word in WORDS] == list(WORDS)
    assert real.place.git("status", "--porcelain") == ""
    assert {event["lane"] for event in real.events("task.started")} >= {1, 2}
    assert real.events("task.collided") == []


def test_agents_of_two_kinds_work_side_by_side(tmp_path: Path, model: Model) -> None:
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
