"""What a project's settings may do, and how a person allows it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from segue.cli.terminal.output import AGENT_VARIABLES
from segue.config.feature_tables import all_settings
from segue.config.load import load
from segue.config.trust import CONFINED, HARMLESS, is_harmless
from segue.domain.options import option_fields
from tests.cli.place import DEADLINE, Place
from tests.trust.hostile import Trap, trapped

SETTINGS = 'agent = "command"\nagents.command.argv = ["sh", "-c", "echo ran >> made.txt"]\n'
CHANGED = SETTINGS.replace("echo ran", "echo evil")


@pytest.fixture
def trap(tmp_path: Path) -> Iterator[Trap]:
    """A project with an agent that leaves a mark, and nobody's trust."""
    with trapped(Place.make(tmp_path)) as trap:
        write(trap, SETTINGS)
        yield trap


def write(trap: Trap, text: str, name: str = "segue.toml") -> None:
    (trap.place.repo / name).write_text(text)
    trap.place.git("add", "--all")
    trap.place.git("commit", "--quiet", "--allow-empty", "-m", "settings")


def marks(trap: Trap) -> list[str]:
    """Return what the project's own programs have left."""
    made = trap.place.repo / "made.txt"
    return made.read_text().split() if made.exists() else []


def refused(trap: Trap, *words: str, **env: str) -> str:
    """Run a command that must not start anything, and return what it says."""
    before = marks(trap)
    done = trap.place.segue(*words, code=2, **env)
    assert marks(trap) == before
    return " ".join(done.stderr.split())


def answer(trap: Trap, text: str, *words: str) -> tuple[int, str]:
    """Run a command on a terminal and type an answer."""
    ours, theirs = pty.openpty()
    known = {name: value for name, value in trap.place.env.items() if name not in AGENT_VARIABLES}
    child = subprocess.Popen(
        trap.place.command(*words),
        cwd=trap.place.repo,
        env={**known, "TERM": "xterm"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    os.write(ours, text.encode())
    said = b""
    try:
        while piece := os.read(ours, 65536):
            said += piece
    except OSError:  # what Linux says when the other end is closed
        pass
    os.close(ours)
    return child.wait(DEADLINE), said.decode()


def test_without_a_terminal_a_run_is_refused_with_the_command_to_type(trap: Trap) -> None:
    said = refused(trap, "run", "plan.md", "--task", "1")
    assert "agents.command.argv" in said
    assert f"segue trust --repo {trap.place.repo}" in said
    assert "Nothing was started" in said
    assert trap.place.json("status") == []


@pytest.mark.parametrize("words", ["resume", "try scripted hello"])
def test_what_runs_something_is_refused_without_trust(trap: Trap, words: str) -> None:
    trap.place.segue("run", "plan.md", "--trust", "--pause-after-task", code=3)
    assert "agents.command.argv" in refused(trap, *words.split())


@pytest.mark.parametrize("way", ["option", "variable"])
def test_trust_for_one_call_is_not_remembered(trap: Trap, way: str) -> None:
    words = ["run", "plan.md", "--task", "1"]
    if way == "option":
        trap.place.segue(*words, "--trust")
    else:
        trap.place.segue(*words, SEGUE_TRUST="1")
    assert marks(trap) == ["ran"]
    refused(trap, "run", "plan.md", "--task", "2")


def test_the_file_of_a_project_cannot_trust_itself(trap: Trap) -> None:
    write(trap, 'trust = true\nSEGUE_TRUST = "1"\n' + SETTINGS)
    refused(trap, "run", "plan.md")


def test_what_was_allowed_runs_until_it_changes(trap: Trap) -> None:
    trap.place.segue("trust", "--yes")
    trap.place.segue("run", "plan.md", "--task", "1")
    write(trap, CHANGED)
    assert "was changed since you trusted it: agents.command.argv" in refused(
        trap, "run", "plan.md", "--task", "2"
    )
    write(trap, SETTINGS + 'jobs = 1\ncommit = "task"\n')
    trap.place.segue("run", "plan.md", "--task", "2")


WEAKER = (
    *("flow = 'execute'", "allow_dirty = true", "allow_no_change = true"),
    *("verify = 'task'", "judged_by = 'agent'", "require = 'changed'", "ignore_checklists = true"),
    *("control_files = []", "known_failures = ['*']", "plan_changed = 'keep'"),
    *("gates = []", "max_consecutive_task_failures = 99", "proof.independent = false"),
    *("judge.max_evidence_bytes = 1000", "limits.attempts = 99", "limits.run_timeout = 999999"),
    *("kinds.1 = 'human'", "roles.verify = 'claude'", "review.reviewer = 'none'", "rls.enabled = 'off'"),
)


@pytest.mark.parametrize("text", WEAKER)
def test_what_weakens_proof_or_loosens_a_limit_is_not_in_force_without_trust(
    tmp_path: Path, text: str
) -> None:
    for place, words in (("segue.toml", text), ("pyproject.toml", f"# [tool.segue\n[tool]\nsegue.{text}")):
        folder = tmp_path / place
        folder.mkdir()
        (folder / place).write_text(f"{words}\n")
        project = load(folder, environ={}).project
        assert project is not None
        assert project.held == (text.partition(" =")[0],)


def test_a_removed_check_must_be_allowed_too(trap: Trap) -> None:
    write(trap, 'agent = "scripted"\nchecks = ["true"]\n')
    trap.place.segue("trust", "--yes")
    write(trap, 'agent = "scripted"\n')
    assert "checks (removed)" in refused(trap, "run", "plan.md")
    trap.place.segue("trust", "--yes")
    trap.place.segue("run", "plan.md", "--task", "1")


def test_revoked_trust_is_gone(trap: Trap) -> None:
    trap.place.segue("trust", "--yes")
    trap.place.segue("trust", "--revoke")
    refused(trap, "run", "plan.md")


def test_a_moved_clone_asks_again(trap: Trap) -> None:
    trap.place.segue("trust", "--yes")
    moved = trap.place.root / "moved"
    trap.place.repo.rename(moved)
    trap.place.repo.mkdir()
    refused(trap, "run", "plan.md", "--repo", str(moved))


def test_a_person_is_asked_on_a_terminal_once(trap: Trap) -> None:
    code, said = answer(trap, "n\n", "run", "plan.md", "--task", "1")
    assert code == 2
    assert "Starts programs as agents" in said
    assert marks(trap) == []
    code, said = answer(trap, "y\n", "run", "plan.md", "--task", "1")
    assert code == 0, said
    trap.place.segue("run", "plan.md", "--task", "2")
    assert marks(trap) == ["ran", "ran"]


def test_settings_are_shown_as_they_are(trap: Trap) -> None:
    hidden = "x\u202ey\x1b[2Jz"
    write(trap, f'checks = [["run", {json.dumps(hidden)}]]\ndatabase_url = "postgresql://me:pw@host/x"\n')
    shown = trap.place.segue("trust", "--show").stderr
    assert r"\u202ey\u001b[2Jz" in shown
    assert "pw" not in shown
    found = trap.place.json("trust", "--show")
    assert found["trusted"] is False
    assert found["not_in_force"] == ["checks", "database_url"]
    code, said = answer(trap, "y\n", "trust")
    assert (code, "Trusted: " in said) == (0, True)
    assert trap.place.json("trust", "--show")["trusted"] is True


def test_places_of_an_untrusted_project_do_not_count(trap: Trap) -> None:
    write(trap, 'state_dir = "planted"\nagent = "scripted"\n')
    shown = trap.place.segue("db", "path")
    assert str(trap.place.repo) not in shown.stdout
    assert "state_dir" in shown.stderr
    for words in (["stop"], ["task", "skip", "1", "--reason", "x"], ["gc"]):
        assert "state_dir" in refused(trap, *words)
    trap.place.segue("trust", "--yes")
    assert str(trap.place.repo / "planted") in trap.place.segue("db", "path").stdout


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_files_of_other_users_never_count(trap: Trap) -> None:
    os.chown(trap.place.repo / "segue.toml", 12345, 12345)
    assert "belongs to another user" in refused(trap, "run", "plan.md", SEGUE_TRUST="1")
    assert "belongs to another user" in refused(trap, "trust", "--yes")
    assert "belongs to another user" in trap.place.segue("status").stderr
    rows = {row["what"]: row for row in trap.place.json("doctor", code=2)["checks"]}
    assert rows["trust"]["ok"] is False
    above = trap.place.root / "segue.toml"
    (trap.place.repo / "segue.toml").rename(above)
    done = trap.place.segue("run", "plan.md", "--agent", "scripted", "--task", "1", "--allow-dirty")
    assert f"{above} belongs to another user" in done.stderr


def test_a_damaged_note_allows_nothing(trap: Trap) -> None:
    trap.place.segue("trust", "--yes")
    note = trap.place.root / "state" / "segue" / "trusted.json"
    assert note.stat().st_mode & 0o077 == 0
    for text in ("", "[]", '{"files": 3}', '{"files": {"x": [3]}}', "\xff"):
        note.write_text(text)
        refused(trap, "run", "plan.md")
    trap.place.segue("trust", "--yes")
    trap.place.segue("run", "plan.md", "--task", "1")


def names_of(kind: type[Any], prefix: str = "") -> Iterator[str]:
    for field in option_fields(kind):
        if field.is_table:
            yield from names_of(field.type, f"{prefix}{field.name}.")
        else:
            yield prefix + field.name


def test_what_is_listed_as_harmless_exists() -> None:
    known = set(names_of(all_settings()))
    tables = {name.removesuffix(".*") for name in CONFINED if name.endswith(".*")}
    assert known >= HARMLESS
    assert CONFINED - {f"{table}.*" for table in tables} <= known
    assert all(any(name == table or name.startswith(f"{table}.") for name in known) for table in tables)


def test_settings_that_reach_further_are_powerful() -> None:
    words = "command cmd argv url env host port network dir path file setup audit hooks checks commands"
    reaching = [
        name
        for name in names_of(all_settings())
        if set(name.replace(".", "_").split("_")) & set(words.split())
    ]
    harmless = [name for name in reaching if is_harmless(name, "x")]
    assert harmless == []
    assert len(reaching) > 15


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../x.md", "~/x.md", "a/../../x", "https://x/y", "\\\\host\\x"]
)
def test_a_source_outside_is_powerful(path: str) -> None:
    assert not is_harmless("source", path)
    assert is_harmless("source", "plans/plan.md")
