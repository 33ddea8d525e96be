"""What people read when something is wrong: what happened, and what to do next, without jargon."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from segue.cli.main import run
from tests.cli.mistakes import MISTAKES, Mistake, occupied
from tests.cli.place import make_template

JARGON = re.compile(
    r"Traceback|\[Errno|unexpected \w*Error|\(from default\)|Expected `|codec can't|Input should be"
    r"|msgspec|pydantic|<Role|NoneType|not a valid integer range"
)
ADVICE = re.compile(r"Next: \S|Try 'segue |[Dd]id you mean |See `segue ")
PLAN = "# Plan\n\n## Task 1\nWrite one.\n\n## Task 2\nWrite two.\n"
_TOOLS = ("git", "sh", "true")


@pytest.fixture(scope="module")
def template() -> Path:
    """A repository with a plan."""
    repo = make_template({"plan.md": PLAN})
    shutil.rmtree(repo / ".git" / "hooks", ignore_errors=True)
    return repo


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the only programs that there are."""
    folder = tmp_path_factory.mktemp("programs")
    for name in _TOOLS:
        (folder / name).symlink_to(str(shutil.which(name)))
    return folder


@pytest.fixture
def repo(template: Path, programs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the repository, as the current folder of a user who has set nothing."""
    shutil.copytree(template, tmp_path / "repo")
    (tmp_path / "home").mkdir()
    for name in os.environ:
        if name.startswith(("SEGUE_", "XDG_", "GIT")) or name.endswith(("_API_KEY", "_TOKEN")):
            monkeypatch.delenv(name)
    given = {
        "HOME": str(tmp_path / "home"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "SEGUE_ISOLATION": "none",
        "SEGUE_TRUST": "1",
        "PATH": str(programs),
        "GIT_CONFIG_GLOBAL": os.devnull,
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path / "repo")
    return tmp_path / "repo"


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda one: one.command)
def test_a_mistake_is_explained(
    mistake: Mistake, repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mistake.prepare(repo)
    for name, value in mistake.env.items():
        monkeypatch.setenv(name, value)
    code = run(mistake.args)
    said = capsys.readouterr().err
    assert code == mistake.code, said
    assert [words for words in mistake.says if words not in said] == [], said
    assert not JARGON.search(said), said
    assert ADVICE.search(said), f"it does not say what to do next: {said}"


def test_there_are_enough_of_them() -> None:
    assert len({(one.args, str(one.env), one.says) for one in MISTAKES}) >= 103


def test_a_port_in_use_comes_with_another(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert repo.is_dir()
    listener, port = occupied()
    with listener:
        assert run(["serve", "--port", port]) == 2
    said = capsys.readouterr().err
    assert f"127.0.0.1:{port}: Address already in use" in said
    assert f"--port {int(port) + 1}" in said


def test_what_nobody_trusts_yet_is_said_to_be_set(
    repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SEGUE_TRUST")
    (repo / "segue.toml").write_text('checks = ["true"]\nagent = "command"\n[agents.command]\nargv = ["x"]\n')
    assert run(["doctor"]) == 2
    said = capsys.readouterr().out
    assert said.count("in force once you trust it") == 2
    assert "argv is required" not in said
    assert "✓  sandbox" not in said


def test_a_line_that_no_run_could_use_is_refused_before_trust(
    repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SEGUE_TRUST")
    (repo / "segue.toml").write_text('checks = ["true"]\n')
    for line, says in (("plna.md", "segue run plan.md"), ("plan.md --task 9", "Its tasks are 1, 2")):
        assert run(["run", *line.split(), "--agent", "scripted"]) == 2
        assert says in capsys.readouterr().err


def test_lists_name_what_was_set_and_what_is_ready(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repo / "segue.toml").write_text('checks = ["true"]\n')
    assert run(["config", "list"]) == 0
    said = capsys.readouterr()
    assert [line.split()[0] for line in said.out.splitlines()] == ["SETTING", "checks", "isolation"]
    assert "settings have their default" in said.err
    assert run(["config", "list", "--all"]) == 0
    assert "limits.attempts" in capsys.readouterr().out
    assert run(["agent", "list"]) == 0
    said = capsys.readouterr()
    ready, _, rest = said.out.partition("Not installed")
    assert "scripted" in ready
    assert "plan_mode" not in ready
    assert "npm install -g @openai/codex" in rest


def test_several_tasks_are_understood(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for named in ("1,2", "1-2", "1..2", "Task 1 and 2"):
        assert run(["run", "plan.md", "--agent", "scripted", "--task", named, "--dry-run", "--json"]) == 0
        said = capsys.readouterr().out.splitlines()
        assert [json.loads(line)["task"] for line in said] == ["1", "2"]


def test_who_cannot_commit_yet_is_told_how(
    repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("user.name", "user.email"):
        subprocess.run(["git", "config", "--unset-all", name], check=False)
    monkeypatch.setenv("EMAIL", "")
    subprocess.run(["git", "config", "user.useConfigOnly", "true"], check=True)
    (repo / "new.py").write_text("x = 1\n")
    assert run(["run", "plan.md", "--agent", "scripted", "--yes"]) == 2
    assert "Say who you are: git config --global user.name" in capsys.readouterr().err
