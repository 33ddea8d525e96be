"""What people read when something is wrong: what happened, and what to do next, with the right exit code."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import socket
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from segue.cli.main import COMMANDS, run
from tests.cli.place import make_template

JARGON = re.compile(
    r"Traceback|\[Errno|unexpected \w*Error|\(from default\)|Expected `|codec can't|Input should be"
    r"|msgspec|pydantic|<Role|NoneType"
)
PLAN = "# Plan\n\n## Task 1\nWrite one.\n\n## Task 2\nWrite two.\n"
RUN = "run plan.md --agent scripted"
Prepare = Callable[[Path], object]
"""Makes the mistake in a repository with a plan of two tasks."""


class Mistake(NamedTuple):
    """A command that is wrong, its exit code, and what its message must contain."""

    command: str
    code: int
    says: tuple[str, ...]
    prepare: Prepare = lambda _repo: None
    env: tuple[str, str] = ("", "")


def toml(text: str) -> Prepare:
    return lambda repo: (repo / "segue.toml").write_text(text)


def file(name: str, data: str | bytes) -> Prepare:
    """Commit a file."""

    def write(repo: Path) -> None:
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_bytes(data if isinstance(data, bytes) else data.encode())
        for args in (["add", "--all"], ["commit", "--quiet", "-m", "more"]):
            subprocess.run(["git", *args], cwd=repo, check=True)

    return write


def feature(repo: Path) -> None:
    (repo / ".specify").mkdir()
    tasks = "# Tasks\n\n## Phase 1: Setup\n\n- [ ] T001 Create src/a.py\n- [ ] T002 Create src/b.py\n"
    file("specs/001-login/tasks.md", tasks)(repo)


def done(_repo: Path) -> None:
    """Let task 1 be done."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert run(["run", "plan.md", "--agent", "scripted", "--task", "1", "--yes"]) == 0


def changed(repo: Path) -> None:
    """Let there be work that is not committed."""
    (repo / "new.py").write_text("x = 1\n")


def without_commits(repo: Path) -> None:
    shutil.rmtree(repo / ".git")
    subprocess.run(["git", "init", "--quiet"], cwd=repo, check=True)


def _database(repo: Path) -> Path:
    folder = repo.parent / "state" / "segue"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "segue.db"


def from_the_future(repo: Path) -> None:
    done(repo)
    with contextlib.closing(sqlite3.connect(_database(repo))) as connection, connection:
        connection.execute("UPDATE orchestrator_migrations SET version = 999")


COMMAND_LINE = [
    Mistake("stauts", 2, ("There is no command 'stauts'.", "`segue status`")),
    Mistake("db exprt", 2, ("exprt", "segue db --help")),
    Mistake(f"{RUN} --max-tasks 2", 2, ("--max-tasks", "segue run --help")),
    Mistake("task skip 2", 2, ("--reason", "segue task skip --help")),
    Mistake(f"{RUN} --quiet --verbose", 2, ("exclude each other", "Leave one of them out")),
    Mistake("trust --yes --show", 2, ("exclude each other",)),
    Mistake("report --since yesterday", 2, ("'yesterday' is not a date", "7d")),
]
SOURCES = [
    Mistake("run plna.md --agent scripted", 2, ("plna.md does not exist", "Did you mean plan.md?")),
    Mistake("run specs/001-logn --agent scripted", 2, ("Did you mean specs/001-login?",), feature),
    Mistake("run 003 --agent scripted", 2, ("no Spec Kit folder 003", "specs/001-login"), feature),
    Mistake("run empty.md --agent scripted", 2, ("is empty", "## Task 1"), file("empty.md", "")),
    Mistake("run notes.md --agent scripted", 2, ("No heading", "## Task 1"), file("notes.md", "hello")),
    Mistake("run a.md --agent scripted", 2, ("is not UTF-8", "iconv"), file("a.md", b"## Task 1\ncaf\xe9")),
    Mistake(RUN, 2, ("Task 1 is here and on line 1",), file("plan.md", "## Task 1\nA\n## Task 1\nB\n")),
    Mistake("run t.csv --agent scripted", 2, ("names no column `title`", "id,title"), file("t.csv", "a,b\n")),
    Mistake("run github:a/b --agent scripted", 4, ("no token for GitHub", "gh auth login")),
    Mistake(f"{RUN} --task 9", 2, ("no task '9'", "1, 2")),
    Mistake(f"{RUN} --story US1", 2, ("no story 'US1'", "It has none")),
    Mistake(
        "run --agent scripted", 2, ("Looked for", "segue run plan.md"), lambda r: (r / "plan.md").unlink()
    ),
]
AGENTS = [
    Mistake("run plan.md", 5, ("No agent was chosen", "npm install", "segue rehearse plan.md")),
    Mistake("run plan.md --agent cladue", 2, ("no agent 'cladue'", "'claude'", "codex")),
    Mistake("run plan.md --agent claude", 5, ("Claude Code (claude) was not found", "npm install")),
    Mistake("run plan.md --agent cursor-cloud", 4, ("CURSOR_API_KEY is not set", "https://cursor.com")),
    Mistake("run plan.md --agent command", 2, ("agents.command.argv", "nothing sets it", "segue.toml")),
    Mistake("run 001 --agent scripted --judge checks", 2, ("there are no checks", "pytest -q"), feature),
    Mistake(
        "run 001 --agent scripted --judge llm", 4, ("OPENAI_API_KEY is not set", "--judge agent"), feature
    ),
    Mistake(f"{RUN} --flow build", 2, ("no agent has planned the tasks",)),
]
REPOSITORIES = [
    Mistake(RUN, 2, ("uncommitted changes: new.py", "--allow-dirty"), changed),
    Mistake(RUN, 2, ("not a git repository", "git init"), lambda r: shutil.rmtree(r / ".git")),
    Mistake(f"{RUN} --worktree", 2, ("no commit yet", "Make a first commit"), without_commits),
    Mistake(f"{RUN} -C nowhere", 2, ("nowhere is not a folder", "--repo")),
    Mistake("init", 2, ("already exists", "It was not changed"), toml("")),
    Mistake(
        "trust",
        2,
        ("there is no terminal", "segue trust --yes"),
        toml('checks = ["true"]\n'),
        ("SEGUE_TRUST", ""),
    ),
    Mistake(f"{RUN} --pr", 2, ("no remote called origin", "git remote add origin")),
    Mistake(f"{RUN} --base main", 2, ("has no effect", "your work tree", "leave it out")),
    Mistake("check", 2, ("No checks are configured", "segue check -- pytest -q", "segue.toml"), changed),
]
SETTINGS = [
    Mistake("run plan.md", 2, ("agnet", "did you mean agent?", "segue.toml"), toml('agnet = "claude"\n')),
    Mistake("run plan.md", 2, ("line 1", "needs quotes"), toml("agent = claude\n")),
    Mistake(RUN, 2, ('"pytest -q"', "segue.toml"), toml("checks = [3]\n")),
    Mistake(RUN, 5, ("nopytest was not found", "change `checks`"), toml('checks = ["nopytest -q"]\n')),
    Mistake(RUN, 2, ("whole number from 1 to 64", '"four"'), toml('jobs = "four"\n')),
    Mistake(RUN, 2, ("limits.attempt", "limits.attempts?"), toml("[limits]\nattempt = 3\n")),
    Mistake(RUN, 2, ('"checked"', '"proven"'), toml('require = "proven"\n')),
    Mistake(RUN, 2, ("cannot be reached", "pytest -q"), toml('require = "checked"\n')),
    Mistake(RUN, 2, ("is not UTF-8", "line 1"), lambda r: (r / "segue.toml").write_bytes(b'model = "\xe9"')),
    Mistake("config list agnet", 2, ("no setting 'agnet'", "agent")),
    Mistake(RUN, 2, ("SEGUE_AGNET", "SEGUE_AGENT?"), env=("SEGUE_AGNET", "claude")),
    Mistake(RUN, 2, ("SEGUE_CHECKS", '["pytest -q"]'), env=("SEGUE_CHECKS", "[pytest")),
]
RUNS = [
    Mistake("status nope", 2, ("no run 'nope'", "segue status"), done),
    Mistake("logs", 2, ("There is no run in", "segue run")),
    Mistake("follow last", 2, ("no pull request to follow", "--pr"), done),
    Mistake("task accept 9", 2, ("no task '9'", "segue task list"), done),
    Mistake("task accept 1", 2, ("already done", "Nothing was changed"), done),
]
DATA = [
    Mistake(
        "status",
        1,
        ("is not a Segue database", "--database-url"),
        lambda r: _database(r).write_text("no" * 999),
    ),
    Mistake("status", 1, ("has version 999", "Use the Segue that wrote it"), from_the_future),
    Mistake(f"{RUN} --database-url mysql://x/y", 2, ("neither a Postgres address", "postgresql://user")),
    Mistake("db export", 2, ("do not fit into one stream", "-o dataset")),
    Mistake("db query 'selec 1'", 2, ("syntax error", "docs/reference/data.md"), done),
    Mistake("experiment x.toml", 2, ("prompts", "is required"), file("x.toml", "")),
    Mistake("serve --host 0.0.0.0", 2, ("every network of this machine", "ssh -L", "--host ADDRESS")),
    Mistake("submit plan.md --agent scripted", 2, ("shares a Postgres database", "SEGUE_DATABASE_URL")),
]


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
    for name in ("git", "sh", "true"):
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


@pytest.mark.parametrize(
    "mistake",
    [*COMMAND_LINE, *SOURCES, *AGENTS, *REPOSITORIES, *SETTINGS, *RUNS, *DATA],
    ids=lambda one: one.command,
)
def test_a_mistake_is_explained(
    mistake: Mistake, repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mistake.prepare(repo)
    if mistake.env[0]:
        monkeypatch.setenv(*mistake.env)
    code = run(shlex.split(mistake.command))
    said = capsys.readouterr().err
    assert code == mistake.code, said
    assert [words for words in mistake.says if words not in said] == [], said
    assert not JARGON.search(said), said
    assert "Next: " in said, f"it does not say what to do next: {said}"


def test_help_shows_every_command_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    named = [
        line.split()[0] for line in capsys.readouterr().out.splitlines() if line[:2] == "  " != line[2:4]
    ]
    assert set(COMMANDS) <= set(named)


def test_a_port_in_use_comes_with_another(repo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert run(["serve", "--port", str(port)]) == 2
    said = capsys.readouterr().err
    assert f"127.0.0.1:{port}: Address already in use" in said
    assert f"--port {port + 1}" in said


def test_a_line_that_no_run_could_use_is_refused_before_trust(
    repo: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SEGUE_TRUST")
    (repo / "segue.toml").write_text('checks = ["true"]\n')
    for line, says in (("plna.md", "plan.md"), ("plan.md --task 9", "Its tasks are 1, 2")):
        assert run(["run", *line.split(), "--agent", "scripted"]) == 2
        assert says in capsys.readouterr().err


def test_settings_are_listed_with_value_origin_and_meaning(
    repo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (repo / "segue.toml").write_text('checks = ["true"]\n')
    assert run(["config", "list"]) == 0
    said = capsys.readouterr()
    assert [line.split()[0] for line in said.out.splitlines()] == ["SETTING", "checks", "isolation"]
    assert "settings have their default" in said.err
    assert run(["config", "list", "limits.attempts"]) == 0
    assert "Launches per phase" in capsys.readouterr().out
