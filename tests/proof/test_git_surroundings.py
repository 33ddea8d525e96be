"""What git obeys is put back after a launch and named; what people do with git all day stays."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from segue.domain.errors import Unfinished
from segue.proof.inputs import decode_note, encode_note
from segue.system.git.guard import GitGuard, GitState, GitViolation, settle_surroundings
from segue.system.git.repository import Repository

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links and pipes are different there")

WHO = ("-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "protocol.file.allow=always")


class World:
    """A repository, and a program that must not run."""

    def __init__(self, root: Path) -> None:
        self.root, self.repo, self.ran = root, root / "repo", root / "ran"

    def git(self, *arguments: str, at: str = ".") -> str:
        command = ["git", *WHO, *arguments]
        done = subprocess.run(
            command, cwd=self.repo / at, check=True, capture_output=True, text=True, timeout=20
        )
        return done.stdout.strip()

    def write(self, path: str, text: str, mode: int = 0o644) -> Path:
        place = self.repo / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        place.chmod(mode)
        return place

    def append(self, path: str, text: str) -> None:
        with (self.repo / path).open("a") as file:
            file.write(text)

    def program(self, path: str = "tool") -> Path:
        return self.write(path, f"#!/bin/sh\necho >> {self.ran}\n", 0o755)

    @property
    def monitor(self) -> str:
        """A configuration with which git runs the program whenever it looks."""
        return f"[core]\n\tfsmonitor = {self.program()}\n"

    def init(self, path: str, config: str = "") -> None:
        (self.repo / path).mkdir(parents=True, exist_ok=True)
        self.git("init", "--quiet", at=path)
        self.append(f"{path}/.git/config", config)

    def launch(self, deed: Callable[[World], object], *, sealed: bool = False) -> list[GitViolation]:
        """Let an agent do something between two looks."""
        guard = GitGuard(Repository(self.repo, self.repo / ".git"), sealed=sealed)
        asyncio.run(guard.prepare())
        before = decode_note(encode_note(guard.look()), GitState)  # another process may compare
        deed(self)
        return asyncio.run(guard.compare(before, "run/1"))

    def look(self) -> None:
        """Do what users, their editors and their prompts do; nothing may run or wait."""
        for command in (["status"], ["log", "-1"], ["branch", "--list"]):
            subprocess.run(["git", *command], cwd=self.repo, check=False, capture_output=True, timeout=20)
        assert not self.ran.exists(), "the user's git has run what the agent wrote"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    world = World(tmp_path_factory.mktemp("template"))
    world.repo.mkdir()
    world.git("init", "--quiet", "--initial-branch=main")
    for name in ("code.py", "more.py"):
        world.write(name, "x = 1\n")
        world.git("add", ".")
        world.git("commit", "--quiet", "-m", name)
    world.git("branch", "other")
    world.write(".gitignore", "tool\nevil/\n")
    world.write("work.py", "y = 1\n")
    return world.root


@pytest.fixture
def world(template: Path, tmp_path: Path) -> World:
    shutil.copytree(template / "repo", tmp_path / "repo", symlinks=True)
    return World(tmp_path)


Deed = Callable[[World], object]


def _forge(world: World) -> None:
    world.git("replace", "HEAD", world.git("commit-tree", "HEAD^{tree}", "-m", "forged"))


def _link(world: World, name: str) -> None:
    place, target = world.repo / ".git" / name, world.root / "elsewhere"
    target.mkdir()
    (target / "kept").write_text("mine\n")
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
    place.symlink_to(target)


def _pipe(world: World, name: str) -> None:
    (world.repo / ".git" / name).unlink(missing_ok=True)
    os.mkfifo(world.repo / ".git" / name)


OBEYED: dict[str, Deed] = {
    "config": lambda w: w.append(".git/config", w.monitor),
    "config.worktree": lambda w: (
        w.git("config", "extensions.worktreeConfig", "true"),
        w.write(".git/config.worktree", w.monitor),
    ),
    "hooks/post-index-change": lambda w: w.program(".git/hooks/post-index-change"),
    "hooks/pre-push": lambda w: (w.repo / ".git/hooks/pre-push").unlink(),
    "info/exclude": lambda w: w.append(".git/info/exclude", "work.py\n"),
    "info/attributes": lambda w: w.write(".git/info/attributes", "* filter=evil\n"),
    "info/grafts": lambda w: w.write(".git/info/grafts", w.git("rev-parse", "HEAD") + "\n"),
    "shallow": lambda w: w.write(".git/shallow", w.git("rev-parse", "HEAD") + "\n"),
    "objects/info/alternates": lambda w: w.write(".git/objects/info/alternates", f"{w.repo}/evil\n"),
    "commondir": lambda w: w.write(".git/commondir", f"{w.repo}/evil/.git\n"),
    "refs/replace": _forge,
    "hooks": lambda w: _link(w, "hooks"),
    "info": lambda w: _link(w, "info"),
    "hooks/pre-commit": lambda w: _pipe(w, "hooks/pre-commit"),
    "HEAD": lambda w: _pipe(w, "HEAD"),
}


@pytest.mark.parametrize("name", OBEYED)
def test_what_git_obeys_is_put_back_and_named_but_fails_nothing(world: World, name: str) -> None:
    world.write(".git/hooks/pre-push", "#!/bin/sh\n", 0o755)
    refs, config = world.git("for-each-ref"), (world.repo / ".git/config").read_bytes()
    found = world.launch(OBEYED[name])
    assert any(name in one.text for one in found), found
    assert not any(one.fails for one in found)
    world.look()
    assert world.git("for-each-ref") == refs
    assert world.git("rev-list", "--count", "HEAD") == "2"
    assert (world.repo / ".git/config").read_bytes() == config
    assert os.access(world.repo / ".git/hooks/pre-push", os.X_OK)
    assert not (world.repo / ".git/hooks").is_symlink()
    elsewhere = world.root / "elsewhere" / "kept"
    assert not elsewhere.exists() or elsewhere.read_text() == "mine\n", "no link was followed"
    assert world.launch(lambda _: None) == []


HONEST: dict[str, Deed] = {
    "nothing": lambda _: None,
    "work": lambda w: w.write("work.py", "y = 2\n"),
    "commit": lambda w: w.git("commit", "--quiet", "--all", "--allow-empty", "-m", "x"),
    "gc": lambda w: (w.git("gc", "--quiet"), w.git("pack-refs", "--all")),
    "merge": lambda w: (
        w.git("commit", "--quiet", "--allow-empty", "-m", "x"),
        w.git("merge", "--quiet", "--no-ff", "-m", "merge", "other"),
    ),
    "a repository of its own": lambda w: w.init("evil"),
}


@pytest.mark.parametrize("name", HONEST)
def test_what_people_do_with_git_is_no_violation(world: World, name: str) -> None:
    assert world.launch(HONEST[name]) == []


def test_other_branches_are_named_and_what_they_lose_is_kept(world: World) -> None:
    lost = world.git("rev-parse", "other")
    found = world.launch(lambda w: (w.git("branch", "-f", "other", "HEAD^"), w.git("tag", "mine")))
    assert [one.fails for one in found] == [False, False]
    assert "tags/mine was made" in found[1].text
    assert world.git("rev-parse", "other") == world.git("rev-parse", "HEAD^"), "it may be a person's doing"
    assert world.git("rev-parse", "refs/segue/kept/run/1/heads/other") == lost


def test_a_rewritten_history_is_put_back_with_its_files(world: World) -> None:
    head = world.git("rev-parse", "HEAD")
    [found] = world.launch(lambda w: w.git("reset", "--quiet", "--hard", "HEAD^"))
    assert not (found.fails and (world.repo / "work.py").exists())
    assert world.git("rev-parse", "HEAD") == head
    assert (world.repo / "more.py").exists()
    made = world.git("rev-parse", "refs/segue/kept/run/1")
    assert made == world.git("rev-parse", "HEAD^")


def test_a_merge_that_was_begun_is_ended_and_its_files_stay(world: World) -> None:
    world.git("switch", "--quiet", "other")
    world.write("theirs.py", "z = 1\n")
    world.git("add", "theirs.py")
    world.git("commit", "--quiet", "-m", "Theirs")
    world.git("switch", "--quiet", "main")
    world.git("commit", "--quiet", "--allow-empty", "-m", "Ours")
    [found] = world.launch(lambda w: w.git("merge", "--quiet", "--no-commit", "--no-ff", "other"))
    assert "A merge was begun" in found.text
    assert not found.fails
    assert not (world.repo / ".git/MERGE_HEAD").exists()
    assert (world.repo / "theirs.py").exists()


def test_only_what_the_agent_hid_is_shown_again(world: World) -> None:
    """What the user hid stays hidden and blames nobody, also after the index was written again."""
    world.git("update-index", "--skip-worktree", "code.py")
    assert world.launch(lambda w: w.git("update-index", "--add", "work.py")) == []
    [found] = world.launch(lambda w: w.git("update-index", "--assume-unchanged", "more.py"))
    assert found.fails
    assert "more.py" in found.text
    assert world.git("ls-files", "-v").splitlines()[0] == "S code.py"
    assert "H more.py" in world.git("ls-files", "-v")


@pytest.mark.parametrize("sealed", [False, True])
def test_a_switched_branch_stops_the_run_with_the_way_back(world: World, sealed: bool) -> None:
    with pytest.raises(Unfinished) as stopped:
        world.launch(lambda w: w.git("switch", "--quiet", "other"), sealed=sealed)
    assert "git switch main" in (stopped.value.hint or "")
    assert ("not by the agent" in stopped.value.message) is sealed


def test_behind_a_sandbox_nothing_is_kept_and_head_alone_is_compared(world: World) -> None:
    guard = GitGuard(Repository(world.repo, world.repo / ".git"), sealed=True)
    asyncio.run(guard.prepare())
    state = guard.look()
    assert (state.files, state.refs, state.hidden) == (None, {}, ())
    assert (state.branch, state.head) == ("main", world.git("rev-parse", "HEAD"))
    assert world.launch(lambda w: w.git("config", "user.name", "Me"), sealed=True) == []
    with pytest.raises(Unfinished, match="was rewritten"):
        world.launch(lambda w: w.git("commit", "--quiet", "--amend", "-m", "Other"), sealed=True)


def test_what_a_killed_segue_did_not_put_back_is_put_back_later(world: World) -> None:
    state = GitGuard(Repository(world.repo, world.repo / ".git")).look()
    world.append(".git/config", world.monitor)
    [text] = settle_surroundings(state)
    assert ".git/config" in text
    assert settle_surroundings(state) == []
    world.look()
