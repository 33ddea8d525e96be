"""Plan, execute, review and address, with the stand-ins for Cursor's CLI and stet."""

from __future__ import annotations

import json
import os
import stat
from typing import Any

import pytest

from tests.cli.place import Place
from tests.fakes import stet
from tests.fakes.cursor_cli import write_cli

KEY = "crsr_0123456789abcdef"


@pytest.fixture
def cursor(place: Place) -> Place:
    """A place where `cursor-agent` and `stet` are the stand-ins."""
    stet.write_program(place.root / "bin", place.root / "stet.json")
    write_cli(place.root / "bin", place.root / "agent.toml")
    place.env["PATH"] = f"{place.root / 'bin'}{os.pathsep}{place.env['PATH']}"
    place.env["CURSOR_API_KEY"] = KEY
    place.config('agent = "cursor"\n')
    return place


def stet_finds(place: Place, *rules: dict[str, Any], **faults: Any) -> None:
    """Say what the stand-in for stet does from now on."""
    (place.root / "stet.json").write_text(json.dumps({"findings": list(rules), "faults": faults}))


def steps(place: Place, task: str = "1") -> list[str]:
    found = place.rows("select key from orchestrator_steps where task = ? order by seq", task)
    return [key.removeprefix(f"task/{task}/") for (key,) in found]


def prompts(place: Place) -> list[str]:
    return [text for (text,) in place.rows("select text from orchestrator_prompts")]


def test_three_phases_with_a_fresh_process_each(cursor: Place) -> None:
    done = cursor.segue("run", "plan.md", "--task", "1")
    assert steps(cursor)[:3] == ["base", "plan/1", "execute/1"]
    assert "review/1" in steps(cursor)
    assert done.stdout.count("  done  ") == 1
    (state,) = [json.loads(cursor.state_file().read_text())]
    plan = state["last_plan_by_task"]["1"]
    executed = [text for text in prompts(cursor) if plan.splitlines()[0] in text]
    assert executed, "the execute prompt holds the plan"
    assert cursor.git("status", "--porcelain") == "", "stet leaves nothing in the user's status"


def test_findings_are_addressed_until_none_is_left(cursor: Place) -> None:
    agent = cursor.root / "agent.toml"
    agent.write_text(
        '[[on]]\nphase = "address"\nwrite = { "code.py" = "fixed = True\\n" }\n'
        '[[on]]\nmode = "agent"\nwrite = { "code.py" = "BAD = True\\n" }\n'
    )
    stet_finds(cursor, {"pattern": "BAD", "severity": "error", "category": "bug", "message": "BAD is bad"})
    cursor.segue("run", "plan.md", "--task", "1")
    assert [key for key in steps(cursor) if key.startswith(("review", "address"))] == [
        "review/1",
        "address/1",
        "review/2",
    ]
    assert [text for text in prompts(cursor) if "BAD is bad" in text]
    assert (cursor.repo / "code.py").read_text() == "fixed = True\n"
    assert len(cursor.subjects()) == 2, "one commit for the task, one for the round"


@pytest.mark.parametrize(("policy", "code"), [("warn", 0), ("fail", 3)])
def test_findings_that_remain(cursor: Place, policy: str, code: int) -> None:
    agent = cursor.root / "agent.toml"
    agent.write_text('[[on]]\nmode = "agent"\nwrite = { "code.py" = "BAD = True\\n" }\n')
    stet_finds(cursor, {"pattern": "BAD", "severity": "error", "category": "bug", "message": "BAD is bad"})
    cursor.segue("run", "plan.md", "--task", "1", code=code, SEGUE_REVIEW__ON_FINDINGS_REMAINING=policy)
    rounds = [key for key in steps(cursor) if key.startswith(("review", "address"))]
    assert rounds == ["review/1", "address/1", "review/2"], "no progress is noticed, not all rounds burnt"
    (task,) = cursor.json("status", "last")["tasks"]
    assert task["verdict"] == ("PARTIAL" if policy == "warn" else None)


def test_a_plan_phase_that_edits_is_undone_and_fails(place: Place) -> None:
    editor = place.repo / "agent.sh"
    editor.write_text('#!/bin/sh\ncat >/dev/null\necho "my plan"\necho x > "made-in-$SEGUE_PHASE"\n')
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    place.git("add", "--all")
    place.git("commit", "--quiet", "-m", "agent")
    place.config('agent = "command"\nflow = "plan"\n[agents.command]\nargv = ["./agent.sh"]\n')
    done = place.segue("run", "plan.md", code=3)
    assert "plan mode" in done.stderr
    assert place.git("status", "--porcelain") == ""
    assert "segue: changed in plan mode" in place.git("stash", "list")


def test_an_agent_that_switches_branch_is_stopped(place: Place) -> None:
    agent = place.repo / "agent.sh"
    agent.write_text("#!/bin/sh\ncat >/dev/null\ngit checkout -q -b elsewhere\necho x > file\n")
    agent.chmod(0o755)
    place.git("add", "--all")
    place.git("commit", "--quiet", "-m", "agent")
    place.config('agent = "command"\n[agents.command]\nargv = ["./agent.sh"]\n')
    done = place.segue("run", "plan.md", code=3)
    assert "elsewhere" in done.stderr
    assert (place.repo / "file").exists()


WHO = "-c user.name=A -c user.email=a@localhost"


@pytest.fixture
def nested(place: Place) -> Place:
    """A repository with a submodule `sub`, in which commits can be made."""
    inner = Place.make(place.root / "inner")
    place.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.repo), "sub")
    place.git("commit", "--quiet", "-m", "submodule")
    return place


def work_inside(place: Place, script: str) -> None:
    place.config(f'agent = "command"\n[agents.command]\nargv = ["sh", "-c", {json.dumps(script)}]\n')


def test_work_that_is_in_a_submodule_alone_is_not_called_done(nested: Place) -> None:
    work_inside(nested, "echo work > sub/work")
    said = nested.segue("run", "plan.md", "--task", "1", code=3).stderr
    assert "has changed. The agent changed files in the submodule sub. Segue commits nothing inside" in said
    assert (nested.repo / "sub" / "work").read_text() == "work\n"
    (task,) = nested.json("status", "last")["tasks"]
    assert task["state"] == "needs_human"


@pytest.mark.parametrize("ignored", ["", "all"])
def test_a_commit_that_an_agent_made_in_a_submodule_is_recorded(nested: Place, ignored: str) -> None:
    if ignored:
        nested.git("config", "--file", ".gitmodules", "submodule.sub.ignore", ignored)
        nested.git("commit", "--quiet", "-a", "-m", "ignored")
    work_inside(nested, f"cd sub && echo work > work && git add work && git {WHO} commit --quiet -m Work")
    said = nested.segue("run", "plan.md", "--task", "1").stderr
    assert "moves a submodule: sub" in said
    assert nested.subjects()[-1].startswith("Task 1")
    inside = nested.git("-C", "sub", "rev-parse", "HEAD").strip()
    assert nested.git("rev-parse", "HEAD:sub").strip() == inside
    assert nested.git("status", "--porcelain", "--ignore-submodules=none") == ""
