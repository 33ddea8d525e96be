"""Each role may be played by another agent, and when one cannot work the next takes over."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

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


@pytest.mark.quick("Error: 401 Unauthorized: invalid api key-auth")
@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("You have hit your usage limit.", "usage_limit"),
        ("Error: 401 Unauthorized: invalid api key", "auth"),
        ("Error: 503 Service Unavailable", "outage"),
    ],
)
def test_the_next_agent_takes_over_and_keeps_the_role(place: Place, line: str, kind: str) -> None:
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


def test_an_agent_that_hangs_without_a_word_is_ended_and_replaced(place: Place) -> None:
    program = "import pathlib, signal; pathlib.Path('../begun').touch(); signal.pause()"
    argv = json.dumps([sys.executable, "-c", program])
    place.config(f"limits.idle_timeout = 1\nlimits.kill_grace = 0.1\n[agents.command]\nargv = {argv}\n")
    place.segue("run", "plan.md", "--agent", "command,scripted")
    assert who(place) == [("1", "command"), ("1", "scripted"), ("2", "scripted"), ("3", "scripted")]
    (event,) = events(place, "fallback")
    assert (event["agent"], event["kind"]) == ("command", "hang")


@pytest.mark.thorough
def test_with_a_known_reset_and_nobody_else_the_task_waits(place: Place) -> None:
    program = """
import pathlib, sys, time
sys.stdin.read()
tried = pathlib.Path("../tried")
if tried.exists():
    pathlib.Path("done.txt").write_text("done")
else:
    tried.touch()
    print(f"Claude AI usage limit reached|{int(time.time()) + 4}")
    sys.exit(1)
"""
    (place.root / "agent.py").write_text(program)
    argv = json.dumps([sys.executable, str(place.root / "agent.py")])
    place.config(f'agent = "command"\n[agents.command]\nargv = {argv}\n')
    place.segue("run", "plan.md", "--task", "1")
    assert len(events(place, "run.parked")) == 1
    assert who(place) == [("1", "command"), ("1", "command")]


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


@pytest.mark.thorough
def test_the_command_line_names_roles_too(place: Place) -> None:
    place.segue("run", "plan.md", "--flow", "plan", "--agent", "scripted", "--agent", "plan=scripted:tiny")
    rows = place.rows(
        "select distinct phase, model from orchestrator_steps where phase in ('plan', 'execute')"
    )
    assert sorted(rows) == [("execute", None), ("plan", "tiny")]


@pytest.mark.thorough
def test_an_agent_that_is_not_installed_is_left_out(place: Place) -> None:
    place.config('[agents.command]\nargv = ["no-such-program"]\n')
    done = place.segue("run", "plan.md", "--agent", "command,scripted")
    assert "command is left out" in done.stderr
    assert {agent for _, agent in who(place)} == {"scripted"}
    assert place.segue("run", "plan.md", "--agent", "command", code=None).returncode == 0, "all is done"


def test_a_role_without_anybody_who_can_work_is_refused(place: Place) -> None:
    place.config('[agents.command]\nargv = ["no-such-program"]\n')
    done = place.segue("run", "plan.md", "--agent", "command", code=5)
    assert "no-such-program" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--agent", "cook=scripted"], "is not a role"),
        (["--agent", "scripted,"], "names no agent"),
        (["--agent", "nobody"], "There is no agent 'nobody'"),
        (["--agent", "scripted", "--agent", "plan=nobody", "--flow", "plan"], "There is no agent 'nobody'"),
    ],
)
def test_wrong_words_are_explained(place: Place, arguments: list[str], message: str) -> None:
    assert message in place.segue("run", "plan.md", *arguments, code=2).stderr


def test_an_agent_that_only_edits_cannot_judge(place: Place) -> None:
    place.config('[agents.command]\nargv = ["true"]\n')
    done = place.segue("run", "Build a thing", "--agent", "scripted", "--agent", "verify=command", code=2)
    assert "cannot judge" in done.stderr


@pytest.mark.thorough
def test_a_follow_up_goes_to_the_agent_that_had_the_conversation(place: Place) -> None:
    """A fallback cannot go on with somebody else's session."""
    place.script("[[on]]\nphase = 'verify'\nattempt = 1\nverdict = { unmet = 'all' }\n")
    place.segue("run", "Build a thing", "--agent", "scripted:one", "--agent", "verify=scripted:two")
    rows = place.rows("select phase, model from orchestrator_steps where model is not null order by seq")
    assert ("verify", "two") in rows
    assert ("resolve", "one") in rows
