"""Nothing is made before it is known that a run can start: every refusal leaves all folders as they were."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from segue.system.lock import RepoLock
from tests.cli.place import Place
from tests.cli.test_spec import SPEC, TASKS

WORK = '[[on]]\nwrite = { "f{task}" = "x" }\n'
_TOOLS = ("git", "sh", "env", "true")


_SQLITES = ("segue.db-wal", "segue.db-shm")
"""SQLite makes them whenever a database is read, and removes them with the next writer."""


def listing(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Everything in a folder with its mode and its content, git's files included."""

    def facts(path: Path) -> tuple[int, bytes]:
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode):
            return mode, path.read_bytes()
        return mode, os.fsencode(path.readlink()) if stat.S_ISLNK(mode) else b""

    found = [path for path in folder.rglob("*") if path.name not in _SQLITES]
    return {str(path.relative_to(folder)): facts(path) for path in found}


def hide_programs(place: Place) -> None:
    """Leave nothing on the PATH that could be an agent."""
    folder = place.root / "bin"
    folder.mkdir()
    for name in filter(shutil.which, _TOOLS):
        (folder / name).symlink_to(str(shutil.which(name)))
    place.env["PATH"] = str(folder)


def write(place: Place, name: str, text: str = "", *, commit: bool = True) -> None:
    path = place.repo / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if commit:
        place.git("add", "--all")
        place.git("commit", "--quiet", "-m", name)


def finish_one(place: Place) -> None:
    """Let the first task be done, so that there is something to lose."""
    place.script(WORK)
    place.segue("run", "plan.md", "--task", "1")


def checklist(place: Place) -> None:
    write(place, "specs/001-x/spec.md", SPEC)
    write(place, "specs/001-x/tasks.md", TASKS)
    write(place, "specs/001-x/checklists/a.md", "- [ ] CHK001 Is it clear?\n")


def rewrite(place: Place) -> None:
    finish_one(place)
    write(place, "plan.md", (place.repo / "plan.md").read_text().replace("Write one.", "Write another."))


def distrust(place: Place) -> None:
    del place.env["SEGUE_TRUST"]
    write(place, "segue.toml", 'agent = "scripted"\nchecks = ["true"]\n')


def stop_notes(place: Place) -> None:
    (place.root / "config" / "segue" / "config.toml").unlink()


Prepare = Callable[[Place], object]


def in_turn(*steps: Prepare) -> Prepare:
    def prepare(place: Place) -> None:
        for step in steps:
            step(place)

    return prepare


REASONS: dict[str, tuple[str, int, Prepare]] = {
    "no agent is chosen, and none is there": ("run plan.md", 5, hide_programs),
    "the agent is not installed": ("run plan.md --agent claude", 5, hide_programs),
    "no repository": ("run plan.md --agent scripted --repo ../home", 2, lambda p: None),
    "a wrong setting": ("run plan.md", 2, lambda p: p.config('agent = "scripted"\nlimits.attempts = "x"\n')),
    "a check that is not installed": (
        "run plan.md",
        5,
        lambda p: p.config('agent = "scripted"\nchecks = ["no-such-tool -q"]\n'),
    ),
    "untrusted settings": ("run plan.md", 2, distrust),
    "uncommitted changes": ("run plan.md --agent scripted", 2, lambda p: write(p, "new", commit=False)),
    "the database is no database": ("run plan.md --agent scripted --database-url plan.md", 1, lambda p: None),
    "the database cannot be reached": (
        "run plan.md --agent scripted --database-url postgresql://127.0.0.1:1/x",
        7,
        lambda p: p.env.update(SEGUE_LIMITS__PATIENCE="0.1"),
    ),
    "no place for the log": ("run plan.md --agent scripted --log-file no/where.log", 2, lambda p: None),
    "open checklists": ("run specs/001-x --agent scripted", 2, checklist),
    "completed tasks were rewritten": ("run plan.md", 2, rewrite),
    "the simulated agent, and nobody to ask": ("run plan.md --agent scripted", 2, stop_notes),
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A place whose temporary folder is looked at, too."""
    made = Place.make(tmp_path)
    (tmp_path / "tmp").mkdir()
    made.env["TMPDIR"] = str(tmp_path / "tmp")
    return made


@pytest.mark.parametrize("reason", REASONS)
def test_a_run_that_cannot_start_leaves_nothing(place: Place, reason: str) -> None:
    words, code, prepare = REASONS[reason]
    prepare(place)
    before = listing(place.root)
    done = place.segue(*shlex.split(words), code=None)
    assert listing(place.root).keys() == before.keys(), done.stderr
    assert listing(place.root) == before
    assert done.returncode == code, done.stderr
    assert "segue: " in done.stderr


def test_a_busy_repository_gets_no_state(place: Place) -> None:
    held = RepoLock.take(place.repo / ".git", "other")
    before = listing(place.root)
    done = place.segue("run", "plan.md", "--agent", "scripted", code=6)
    assert listing(place.root) == before
    assert "works in this repository" in done.stderr
    held.release()


def lose_tool(place: Place) -> None:
    place.more_config('checks = ["no-such-tool"]\n')


AGAIN: dict[str, tuple[int, Prepare]] = {
    "a wrong setting": (2, lambda p: p.more_config("limits.attempts = 'x'\n")),
    "no place for the log": (2, lambda p: p.more_config("log.file = 'no/where.log'\n")),
    "its folder was collected": (
        5,
        in_turn(lambda p: shutil.rmtree(p.database.parent / "runs"), lose_tool),
    ),
    "its record was lost": (5, in_turn(lambda p: p.state_file().unlink(), lose_tool)),
}


@pytest.mark.parametrize("reason", AGAIN)
def test_a_run_that_cannot_continue_leaves_nothing(place: Place, reason: str) -> None:
    place.script("[[on]]\ntask = 2\nexit_code = 1\n" + WORK)
    place.segue("run", "plan.md", code=3)
    code, prepare = AGAIN[reason]
    prepare(place)
    before = listing(place.root)
    done = place.segue("resume", code=code)
    assert listing(place.root).keys() == before.keys(), done.stderr
    assert listing(place.root) == before
