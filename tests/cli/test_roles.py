"""Each role may be played by another agent, and when one cannot work the next takes over."""

from __future__ import annotations

import json
import sys
from typing import Any

from tests.cli.place import Place

LIMITED = "import sys; sys.stdin.read(); print('{line}'); sys.exit(1)"


def command(place: Place, line: str, more: str = "") -> None:
    """The command agent prints a line and fails; the scripted one does the work."""
    argv = json.dumps([sys.executable, "-c", LIMITED.format(line=line)])
    place.config(f"{more}\n[agents.command]\nargv = {argv}\n")


def events(place: Place, kind: str) -> list[dict[str, Any]]:
    return place.events(kind)


def who(place: Place, phase: str = "execute") -> list[tuple[str, str]]:
    return place.rows("select task, agent from orchestrator_steps where phase = ? order by seq", phase)


def test_the_next_agent_takes_over_and_keeps_the_role(place: Place) -> None:
    line = "Error: 401 Unauthorized: invalid api key"
    kind = "auth"
    command(place, line)
    place.segue("run", "plan.md", "--agent", "command,scripted")
    assert who(place) == [("1", "command"), ("1", "scripted"), ("2", "scripted"), ("3", "scripted")]
    (event,) = events(place, "fallback")
    assert (event["agent"], event["next"], event["kind"]) == ("command", "scripted", kind)
    assert len(place.subjects()) == 3


def test_a_task_that_fails_by_itself_is_not_handed_over(place: Place) -> None:
    command(place, "I could not do it.")
    place.segue("run", "plan.md", "--agent", "command,scripted", code=3)
    assert who(place) == [("1", "command"), ("2", "command"), ("3", "command")]
    assert events(place, "fallback") == []


def test_every_role_may_have_its_own_agent_and_model(place: Place) -> None:
    place.config(
        """
[roles]
execute = ["scripted:large"]
plan = "scripted:small"
"""
    )
    place.segue("run", "plan.md", "--flow", "plan", "--task", "1")
    rows = place.rows("select phase, model from orchestrator_steps where model is not null order by seq")
    assert rows == [("plan", "small"), ("execute", "large")]


def test_an_agent_that_only_edits_cannot_judge(place: Place) -> None:
    place.config('[agents.command]\nargv = ["true"]\n')
    done = place.segue("run", "Build a thing", "--agent", "scripted", "--agent", "verify=command", code=2)
    assert "cannot judge" in done.stderr
