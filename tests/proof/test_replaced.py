"""What an agent replaces by something else is named and put back, and nothing outside is touched or read.

Links that were there before the launch are the user's, and keep working.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

from segue.domain.proof import Tampering
from segue.domain.task import Task, TaskList, TaskStatus
from segue.proof.contract import Contract, ContractFile
from segue.proof.guard import LaunchGuard
from segue.system.git.folders import git_dirs
from segue.system.git.guard import GitGuard
from segue.system.git.repository import Repository
from segue.system.reading import read_file

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links and pipes are different there")

PLAN = "- [ ] T001 First\n- [ ] T002 Second\n"
SETTINGS = '[project]\nname = "a"\n\n[tool.segue]\nchecks = ["pytest -q"]\n'
SECRET = "SECRET-OF-SOMEBODY"
OWN = Task("T001", "First", "First")


class World:
    """A repository with everything that a contract may consist of, and a home that is nobody's business."""

    def __init__(self, root: Path) -> None:
        self.root, self.repo, self.home = root, root / "repo", root / "home"
        for folder in (self.repo / "specs" / "001", self.home / "hooks", self.home / "specs"):
            folder.mkdir(parents=True)
        for path in (
            self.home / ".bashrc",
            self.home / "hooks" / "pre-push",
            self.home / "specs" / "tasks.md",
        ):
            path.write_text(SECRET)
        (self.home / "evil.toml").write_text(SETTINGS.replace("pytest -q", "true"))
        self.git("init", "--quiet", "--initial-branch=main")
        self.git("config", "user.name", "Somebody")
        self.git("config", "user.email", "somebody@example.org")
        self.git("remote", "add", "origin", "https://example.org/good.git")
        (self.repo / ".git" / "hooks" / "pre-push").write_text("#!/bin/sh\n")
        (self.repo / ".git" / "hooks" / "pre-push").chmod(0o755)
        self.write("plan.md", PLAN)
        self.write("specs/001/tasks.md", PLAN)
        self.write("specs/001/state.json", "{}")
        self.write("pyproject.toml", SETTINGS)
        self.git("add", ".")
        self.git("commit", "--quiet", "-m", "Begin")

    def git(self, *arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=self.repo, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def write(self, path: str, text: str) -> None:
        (self.repo / path).parent.mkdir(parents=True, exist_ok=True)
        (self.repo / path).write_text(text)

    def link(self, path: str, target: str | Path) -> None:
        """Put a link where something may be already."""
        place = self.repo / path
        if os.path.lexists(place):
            place.rename(self.repo / ".moved")
        place.symlink_to(target)

    def pipe(self, path: str) -> None:
        (self.repo / path).unlink(missing_ok=True)
        os.mkfifo(self.repo / path)

    def outside(self) -> dict[str, tuple[str, int]]:
        """What the home contains, and how often each file is linked."""
        files = (path for path in self.home.rglob("*") if path.is_file())
        return {str(path): (path.read_text(), path.stat().st_mode) for path in files}

    def guard(self, repo: Path | None = None) -> LaunchGuard:
        """The guard as the next process would make it."""
        root = repo or self.repo
        files = [
            ContractFile(root / "plan.md", "tasks"),
            ContractFile(root / "specs/001/tasks.md", "copy"),
            ContractFile(root / "specs/001/state.json", "state"),
            ContractFile(root / "segue.toml", "settings"),
            ContractFile(root / "pyproject.toml", "settings"),
        ]
        found = git_dirs(root)
        assert found is not None
        kept = self.root / "guard" / "kept"
        git = GitGuard(Repository(root, found[0]), found[1], kept)
        return LaunchGuard(self.root / "guard", git, Contract(kept, files, lambda: self.tasks(root)))

    def tasks(self, root: Path) -> TaskList:
        tasks = []
        for line in read_file(root / "plan.md", root).decode().splitlines():
            status = TaskStatus.DONE if line.startswith("- [x]") else TaskStatus.PENDING
            tasks.append(Task(line[6:10], line[11:], line[11:], status))
        return TaskList(tuple(tasks))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@contextmanager
def patience(seconds: int) -> Iterator[None]:
    """Fail instead of waiting for ever: a signal that raises interrupts whatever blocks."""

    def give_up(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError("it blocked")

    old = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)


def launch(world: World, deed: Callable[[World], object], root: Path | None = None) -> list[Tampering]:
    """Let an agent do something between two looks, the second of them by another process."""
    with patience(20):
        world.guard(root).before("task/1/execute/1")
        deed(world)
        found, _failure = asyncio.run(world.guard(root).after("task/1/execute/1", OWN, "run/1"))
    return list(found)


def _hard_link(world: World) -> None:
    (world.repo / "plan.md").unlink()
    (world.repo / "plan.md").hardlink_to(world.home / ".bashrc")


def _folder(world: World) -> None:
    (world.repo / "plan.md").unlink()
    world.write("plan.md/notes.md", "mine\n")


def _append(path: str, text: str) -> Callable[[World], None]:
    def append(world: World) -> None:
        with (world.repo / path).open("a") as file:
            file.write(text)

    return append


Deed = Callable[[World], object]
HOSTILE: dict[str, tuple[str, Deed]] = {
    "plan, link outside": ("plan.md", lambda world: world.link("plan.md", world.home / ".bashrc")),
    "plan, pipe": ("plan.md", lambda world: world.pipe("plan.md")),
    "plan, hard link": ("plan.md", _hard_link),
    "plan, folder": ("plan.md", _folder),
    "tasks.md, folder above": ("001", lambda world: world.link("specs/001", world.home / "specs")),
    "segue.toml, new link": ("segue.toml", lambda world: world.link("segue.toml", world.home / "evil.toml")),
    "pyproject.toml, link": (
        "pyproject.toml",
        lambda world: world.link("pyproject.toml", world.home / "evil.toml"),
    ),
    "hooks, link": ("hooks", lambda world: world.link(".git/hooks", world.home / "hooks")),
    "hook, new pipe": ("pre-commit", lambda world: world.pipe(".git/hooks/pre-commit")),
    "config, pipe": (".git/config", lambda world: world.pipe(".git/config")),
    "commondir": ("commondir", lambda world: world.write(".git/commondir", str(world.home))),
    "config, one line": ("config", _append(".git/config", "[user]\n[core] fsmonitor = /tmp/x\n")),
    ".git, link": (".git", lambda world: world.link(".git", ".moved")),
    "config, remote": ("config", _append(".git/config", '[remote "origin"] pushurl = ext::sh -c x\n')),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_an_agent_puts_in_place_of_a_file_is_named_and_put_back(world: World, name: str) -> None:
    shown, deed = HOSTILE[name]
    before, config = world.outside(), (world.repo / ".git" / "config").read_text()
    found = launch(world, deed)
    assert any(shown in one.text for one in found), found
    assert world.outside() == before, "nothing outside was written, deleted or made private"
    assert SECRET not in "".join(one.text for one in found)
    kept = (world.root / "guard" / "kept").iterdir()
    assert not any(SECRET in path.read_text() for path in kept if path.stat().st_size < 2**20)
    for path, text in (("plan.md", PLAN), ("specs/001/tasks.md", PLAN), ("specs/001/state.json", "{}")):
        assert (world.repo / path).resolve() == world.repo.resolve() / path
        assert (world.repo / path).read_text() == text
        assert (world.repo / path).stat().st_nlink == 1
    assert not os.path.lexists(world.repo / "segue.toml")
    assert (world.repo / "pyproject.toml").read_text() == SETTINGS
    hooks = world.repo / ".git" / "hooks"
    assert not hooks.is_symlink()
    assert (hooks / "pre-push").read_text() == "#!/bin/sh\n"
    assert os.access(hooks / "pre-push", os.X_OK)
    assert (world.repo / ".git" / "config").read_text() == config
    assert not (world.repo / ".git" / "commondir").exists()
    assert not (world.repo / ".git" / "info").is_symlink()
    assert launch(world, lambda _: None) == [], "everything is as it was"


def _link_plan(world: World) -> None:
    world.write("docs/plan.md", PLAN)
    world.link("plan.md", "docs/plan.md")


def _link_hooks_outside(world: World) -> None:
    world.link(".git/hooks", world.home / "hooks")


def _second_name(world: World) -> None:
    (world.home / "plan.md").hardlink_to(world.repo / "plan.md")


def _ordinary_links(world: World) -> None:
    world.write("AGENTS.md", "Be brief.\n")
    world.link("CLAUDE.md", "AGENTS.md")
    world.write("node_modules/.pnpm/a/index.js", "")
    world.link("node_modules/a", ".pnpm/a")


def _backup(world: World) -> None:
    (world.repo / "plan.bak").hardlink_to(world.repo / "plan.md")


def _settle(world: World) -> None:
    world.git("config", "user.email", "agent@example.org")
    world.git("config", "branch.main.remote", "origin")
    world.git("config", "branch.main.merge", "refs/heads/main")
    world.git("config", "color.ui", "never")
    world.git("config", "gc.auto", "0")


def _nothing(_world: World) -> None:
    pass


HONEST: dict[str, tuple[Deed, Deed]] = {
    "plan is a link": (_link_plan, _nothing),
    "hooks are a link that leads out": (_link_hooks_outside, _nothing),
    "plan has a second name": (_second_name, _nothing),
    "the agent makes links of its own": (_nothing, _ordinary_links),
    "the agent keeps a copy by a hard link": (_nothing, _backup),
    "the agent sets its name and upstream": (_nothing, _settle),
}


@pytest.mark.parametrize("name", HONEST)
def test_links_of_the_user_and_ordinary_work_are_left_alone(world: World, name: str) -> None:
    prepare, deed = HONEST[name]
    prepare(world)
    before = world.outside()
    links = {path: str(path.readlink()) for path in world.repo.rglob("*") if path.is_symlink()}
    assert launch(world, deed) == []
    assert world.outside() == before
    assert all(path.is_symlink() and str(path.readlink()) == target for path, target in links.items())


@pytest.mark.parametrize("how", ["in its place", "sed -i", "another target", "a folder", "a second name"])
def test_a_plan_that_is_the_users_link_is_put_back_as_that_link(world: World, how: str) -> None:
    _link_plan(world)
    plan, target = world.repo / "plan.md", world.repo / "docs" / "plan.md"

    def deed(_: World) -> None:
        if how == "in its place":
            plan.write_text(PLAN.replace("Second", "Nothing"))
        elif how == "sed -i":
            plan.unlink()
            plan.write_text(PLAN.replace("[ ]", "[x]"))
        elif how == "another target":
            plan.unlink()
            plan.symlink_to(world.home / ".bashrc")
        elif how == "a folder":
            plan.unlink()
            plan.mkdir()
        else:
            target.unlink()
            target.hardlink_to(world.home / ".bashrc")

    before = world.outside()
    found = launch(world, deed)
    assert "plan.md" in "".join(one.text for one in found)
    assert str(plan.readlink()) == "docs/plan.md"
    assert target.read_text() == PLAN
    assert target.stat().st_nlink == 1
    assert world.outside() == before


def test_a_worktree_is_guarded_through_its_git_file(world: World) -> None:
    tree = world.root / "tree"
    world.git("worktree", "add", "--quiet", str(tree))
    link = (tree / ".git").read_text()
    assert launch(world, _nothing, tree) == []

    def deed(_: World) -> None:
        (tree / ".git").write_text(f"gitdir: {world.home}\n")

    found = launch_with(world, tree, deed)
    assert any(".git" in one.text for one in found)
    assert (tree / ".git").read_text() == link


def launch_with(world: World, tree: Path, deed: Deed) -> list[Tampering]:
    """As `launch`, by one process: it knows where the repository was."""
    guard = world.guard(tree)
    guard.before("task/1/execute/1")
    deed(world)
    with patience(20):
        return list(asyncio.run(guard.after("task/1/execute/1", OWN, "run/1"))[0])


FLIP = """
import os, sys
path, target = sys.argv[1:]
print("ready", flush=True)
while True:
    try:
        os.symlink(target, path + ".link")
        os.replace(path + ".link", path)
        with open(path + ".file", "w") as file:
            file.write("mine")
        os.replace(path + ".file", path)
    except OSError:
        pass
"""


def test_a_path_that_flips_while_it_is_put_back_leads_nowhere(world: World) -> None:
    """A process that survived its agent swaps a file and a link as fast as it can."""
    guard = world.guard()
    guard.before("task/1/execute/1")
    before = world.outside()
    flipping = subprocess.Popen(
        [sys.executable, "-c", FLIP, str(world.repo / "plan.md"), str(world.home / ".bashrc")],
        stdout=subprocess.PIPE,
    )
    assert flipping.stdout is not None
    try:
        flipping.stdout.readline()
        with patience(60):
            for _ in range(40):
                again = world.guard()
                asyncio.run(again.after("task/1/execute/1", OWN, "run/1"))
                guard.before("task/1/execute/1")
                assert world.outside() == before
    finally:
        flipping.kill()
        flipping.wait()
        flipping.stdout.close()
