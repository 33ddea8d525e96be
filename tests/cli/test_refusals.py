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


def unborn(place: Place) -> None:
    shutil.rmtree(place.repo / ".git")
    place.git("init", "--quiet")


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


BUILD = 'run "Build a todo app" --repo todo'

REASONS: dict[str, tuple[str, int, Prepare]] = {
    "no agent is chosen, and none is there": ("run plan.md", 5, hide_programs),
    "the agent is not installed": ("run plan.md --agent claude", 5, hide_programs),
    "there is no such agent": ("run plan.md --agent nobody", 2, lambda p: None),
    "the key is missing": ("run plan.md --agent cursor-cloud", 4, lambda p: p.env.pop("CURSOR_API_KEY", "")),
    "a new project lacks its agent": (f"{BUILD} --agent cursor", 5, hide_programs),
    "a new project, agents for a role": (
        f"{BUILD} --agent scripted --agent verify=codex",
        5,
        hide_programs,
    ),
    "a new project has nowhere to be proposed": (f"{BUILD} --agent scripted --pr", 2, lambda p: None),
    "a new project, deep, with no place for a database": (
        f"{BUILD}/deep/er --agent scripted --database-url plan.md/segue.db",
        1,
        lambda p: None,
    ),
    "no repository": ("run plan.md --agent scripted --repo ../home", 2, lambda p: None),
    "a repository that is nowhere": ("run plan.md --agent scripted --repo ../nowhere", 2, lambda p: None),
    "no such plan": ("run plans.md --agent scripted", 2, lambda p: None),
    "no tasks": ("run no.md --agent scripted", 2, lambda p: write(p, "no.md", "# Nothing\n")),
    "no such task": ("run plan.md --agent scripted --task 9", 2, lambda p: None),
    "no such flow": ("run plan.md --agent scripted --flow nonsense", 2, lambda p: None),
    "a wrong setting": ("run plan.md", 2, lambda p: p.config('agent = "scripted"\nlimits.attempts = "x"\n')),
    "a check that is not installed": (
        "run plan.md",
        5,
        lambda p: p.config('agent = "scripted"\nchecks = ["no-such-tool -q"]\n'),
    ),
    "a reviewer that is not installed": ("run plan.md --agent scripted --review semgrep", 5, hide_programs),
    "a judge without a key": (
        "run plan.md --agent scripted --judge llm",
        4,
        lambda p: p.env.pop("OPENAI_API_KEY", ""),
    ),
    "a sandbox that is missing": ("run plan.md --agent scripted --isolation container", 5, hide_programs),
    "untrusted settings": ("run plan.md", 2, distrust),
    "uncommitted changes": ("run plan.md --agent scripted", 2, lambda p: write(p, "new", commit=False)),
    "uncommitted changes, two jobs": (
        "run plan.md --agent scripted --jobs 2",
        2,
        lambda p: write(p, "new", commit=False),
    ),
    "no commit to begin with": ("run plan.md --agent scripted --worktree", 2, unborn),
    "nowhere to push": ("run plan.md --agent scripted --pr", 2, lambda p: None),
    "a base that means nothing": ("run plan.md --agent scripted --base main", 2, lambda p: None),
    "the database is a folder": ("run plan.md --agent scripted --database-url ../home", 1, lambda p: None),
    "the database is no database": ("run plan.md --agent scripted --database-url plan.md", 1, lambda p: None),
    "the database cannot be reached": (
        "run plan.md --agent scripted --database-url postgresql://127.0.0.1:1/x",
        7,
        lambda p: p.env.update(SEGUE_LIMITS__PATIENCE="0.1"),
    ),
    "no place for the database": (
        "run plan.md --agent scripted --database-url plan.md/x/segue.db",
        1,
        lambda p: None,
    ),
    "no place for the log": ("run plan.md --agent scripted --log-file no/where.log", 2, lambda p: None),
    "no place for the summary": ("run plan.md --agent scripted --summary no/where.md", 2, lambda p: None),
    "open checklists": ("run specs/001-x --agent scripted", 2, checklist),
    "completed tasks were rewritten": ("run plan.md", 2, rewrite),
    "the simulated agent, and nobody to ask": ("run plan.md --agent scripted", 2, stop_notes),
    "starting over without an agent": (
        "run plan.md --restart --agent claude",
        5,
        in_turn(finish_one, hide_programs),
    ),
    "starting over with an unknown task": ("run plan.md --restart --task 9", 2, finish_one),
    "a rehearsal of issues": ("rehearse github:acme/shop", 2, lambda p: None),
    "a rehearsal without a plan": ("rehearse plans.md", 2, lambda p: None),
    "a rehearsal with an unknown task": ("rehearse plan.md --task 9", 2, lambda p: None),
    "a rehearsal of a check that is not installed": (
        "rehearse plan.md",
        5,
        lambda p: p.config('agent = "scripted"\nchecks = ["no-such-tool -q"]\n'),
    ),
    "a rehearsal without a repository": ("rehearse plan.md --repo ../home", 2, lambda p: None),
    "a fleet without a database": ("submit plan.md --agent scripted", 2, lambda p: None),
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


def lose_script(place: Place) -> None:
    (place.root / "script.toml").unlink()


AGAIN: dict[str, tuple[int, Prepare]] = {
    "a check that is not installed": (5, lose_tool),
    "the agent's script is gone": (2, lose_script),
    "a wrong setting": (2, lambda p: p.more_config("limits.attempts = 'x'\n")),
    "no place for the log": (2, lambda p: p.more_config("log.file = 'no/where.log'\n")),
    "its folder was collected": (
        5,
        in_turn(lambda p: shutil.rmtree(p.database.parent / "runs"), lose_tool),
    ),
    "its record was lost": (5, in_turn(lambda p: p.state_file().unlink(), lose_tool)),
}


@pytest.mark.quick(
    "a wrong setting-resume",
    "no place for the log-run plan.md",
    "its folder was collected-run plan.md",
    "its record was lost-resume",
)
@pytest.mark.parametrize("command", ["resume", "run plan.md"])
@pytest.mark.parametrize("reason", AGAIN)
def test_a_run_that_cannot_continue_leaves_nothing(place: Place, reason: str, command: str) -> None:
    place.script("[[on]]\ntask = 2\nexit_code = 1\n" + WORK)
    place.segue("run", "plan.md", code=3)
    code, prepare = AGAIN[reason]
    prepare(place)
    before = listing(place.root)
    done = place.segue(*command.split(), code=code)
    assert listing(place.root).keys() == before.keys(), done.stderr
    assert listing(place.root) == before
