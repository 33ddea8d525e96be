"""What people read when something is wrong: what happened, and what to do next, without jargon."""

from __future__ import annotations

import os
import re
import shutil
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
