"""What changes what git believes or starts is put back and named, wherever in the work tree or git's folder.

The user's own git must run nothing of the agent's afterwards; what people do with git all day stays.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from segue.system.git.folders import common_dir
from segue.system.git.guard import GitGuard
from segue.system.git.integration import Integration
from segue.system.git.nested import GitViolation
from segue.system.git.repository import Repository

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links and pipes are different there")

WHO = ("-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "protocol.file.allow=always")


class World:
    """A repository with a submodule, an ignored clone, and a program that must not run."""

    def __init__(self, root: Path) -> None:
        self.root, self.repo, self.ran = root, root / "repo", root / "ran"
        self.outer = root / "outer"

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

    def replace(self, path: str, kind: str) -> None:
        """Put something else in the place of what is there."""
        place = self.repo / path
        shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
        if kind == "pipe":
            os.mkfifo(place)
        elif kind == "link":
            place.symlink_to(self.root / "elsewhere")
        elif kind == "folder":
            place.mkdir()
        else:
            with socket.socket(socket.AF_UNIX) as server:
                here = Path.cwd()
                os.chdir(place.parent)  # the path of a socket may be a hundred bytes long
                server.bind(place.name)
                os.chdir(here)

    def launch(self, deed: Callable[[World], object], root: Path | None = None) -> list[GitViolation]:
        """Let an agent do something between two looks."""
        place = Repository(root or self.repo, self._git_dir(root or self.repo))
        guard = GitGuard(place, common_dir(place.git_dir), self.root / "kept")
        before = guard.look()
        deed(self)
        return asyncio.run(guard.compare(before, "run/1"))

    def _git_dir(self, root: Path) -> Path:
        link = root / ".git"
        named = link.read_text().removeprefix("gitdir:").strip() if link.is_file() else link
        return (root / named).resolve()

    def look(self) -> None:
        """Do what users, their editors and their prompts do in every folder; nothing may run or wait."""
        folders = [path.parent for path in self.repo.rglob(".git")]
        folders += [path.parent for path in self.repo.rglob("HEAD") if ".git" not in path.parts]
        for folder in folders:
            for command in (["status"], ["log", "-1"], ["branch", "--list"]):
                subprocess.run(["git", *command], cwd=folder, check=False, capture_output=True, timeout=20)
        assert not self.ran.exists(), "the user's git has run what the agent wrote"


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("template")
    world = World(root)
    for name in ("library", "repo"):
        (root / name).mkdir()
        subprocess.run(["git", "init", "--quiet", "--initial-branch=main", name], cwd=root, check=True)
    for path in (root / "library", world.repo):
        (path / "code.py").write_text("x = 1\n")
        world.git("add", ".", at=str(path))
        world.git("commit", "--quiet", "-m", "Begin", at=str(path))
    world.git("submodule", "--quiet", "add", "../library", "vendor/lib")
    world.git("clone", "--quiet", "../library", "third/party")
    world.write(".gitignore", "third/\ntool\nevil/\nbuild/\n.cache/\n")
    world.git("add", ".")
    world.git("commit", "--quiet", "-m", "Second")
    world.git("branch", "other")
    return root


@pytest.fixture
def world(template: Path, tmp_path: Path) -> World:
    for name in ("repo", "library"):
        shutil.copytree(template / name, tmp_path / name, symlinks=True)
    (tmp_path / "elsewhere").mkdir()
    return World(tmp_path)


Deed = Callable[[World], object]


def _another_module(world: World, target: str) -> None:
    world.init("evil", world.monitor)
    world.write("vendor/lib/.git", f"gitdir: {target}\n")


def _pointer(world: World, path: str) -> None:
    world.init("evil", world.monitor)
    world.write(f"{path}/.git", f"gitdir: {world.repo}/evil/.git\n")


def _bare(world: World) -> None:
    (world.repo / "docs").mkdir()
    world.git("init", "--quiet", "--bare", at="docs")
    world.write("docs/config", f"[core]\n\tbare = false\n\tworktree = {world.repo}/docs\n{world.monitor}")


def _common(world: World, path: str) -> None:
    world.init("evil")
    world.git("commit", "--quiet", "--allow-empty", "-m", "x", at="evil")
    world.append("evil/.git/config", world.monitor)
    world.write(f"{path}/commondir", f"{world.repo}/evil/.git\n")


def _forge(world: World, ref: str = "") -> None:
    forged = world.git("commit-tree", "HEAD^{tree}", "-m", "forged")
    if not ref:
        world.git("replace", "HEAD", forged)
        return
    world.append(".git/packed-refs", f"{forged} refs/replace/{world.git('rev-parse', 'HEAD')}\n")


def _alternate(world: World, name: str) -> None:
    shutil.copytree(world.repo / ".git/objects", world.repo / "evil")
    world.write(f".git/objects/info/{name}", f"{world.repo}/evil\n")


def _hook(world: World, path: str) -> None:
    world.program(f"{path}/hooks/post-index-change")


def _replacing(path: str, kind: str) -> Deed:
    return lambda w: w.replace(path, kind)


MODULE = ".git/modules/vendor/lib"
HOSTILE: dict[str, tuple[str, Deed]] = {
    "submodule leads elsewhere": ("vendor/lib/.git", lambda w: _another_module(w, "../../evil/.git")),
    "submodule's configuration": ("lib/config", lambda w: w.append(f"{MODULE}/config", w.monitor)),
    "submodule's hook": ("post-index-change", lambda w: _hook(w, MODULE)),
    "new repository that starts a program": ("build", lambda w: w.init("build", w.monitor)),
    "new pointer": ("build", lambda w: _pointer(w, "build")),
    "bare repository": ("docs", _bare),
    "replaced commit, packed": ("replace", lambda w: _forge(w, "packed")),
    "grafts": ("grafts", lambda w: w.write(".git/info/grafts", w.git("rev-parse", "HEAD") + "\n")),
    "shallow": ("shallow", lambda w: w.write(".git/shallow", w.git("rev-parse", "HEAD") + "\n")),
    "alternates": ("alternates", lambda w: _alternate(w, "alternates")),
    **{
        f"{kind} in place of {ref}": (ref.rpartition("/")[2], _replacing(ref, kind))
        for ref in (".git/refs/heads/main", ".git/refs/heads")
        for kind in ("pipe", "link")
    },
    "pipe in place of an object": (
        "objects",
        lambda w: w.replace(
            f".git/objects/{(oid := w.git('rev-parse', 'HEAD:code.py'))[:2]}/{oid[2:]}", "pipe"
        ),
    ),
    "branch removed": ("history", lambda w: (w.repo / ".git/refs/heads/main").unlink()),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_misleads_git_is_named_and_put_back(world: World, name: str) -> None:
    shown, deed = HOSTILE[name]
    refs = world.git("for-each-ref", "--format=%(refname) %(objectname)")
    found = world.launch(deed)
    assert any(shown in f"{one.subject} {one.text}" for one in found), found
    world.look()
    assert world.git("for-each-ref", "--format=%(refname) %(objectname)") == refs
    assert world.git("rev-list", "--count", "HEAD") == "2"
    assert world.git("submodule", "status").split()[1] == "vendor/lib"
    if name != "pipe in place of an object":
        assert [one for one in world.launch(lambda _: None) if one.subject != "submodule"] == []
        assert world.git("fsck", "--connectivity-only", "--no-dangling") == ""


def _gc(world: World) -> None:
    world.git("gc", "--quiet")
    world.git("pack-refs", "--all")


def _worktree(world: World) -> None:
    world.git("worktree", "add", "--quiet", "build/tree")


def _update(world: World) -> None:
    world.git("fetch", "--quiet", at="vendor/lib")
    world.git("checkout", "--quiet", "-b", "topic", at="vendor/lib")
    world.git("commit", "--quiet", "--allow-empty", "-m", "x", at="vendor/lib")


def _template_hooks(world: World) -> None:
    """Make a repository to which git gives the hooks that it gives to every one."""
    world.init("build")
    shutil.copy(world.repo / ".git/hooks/pre-push", world.repo / "build/.git/hooks/pre-push")


HONEST: dict[str, Deed] = {
    "clone": lambda w: w.git("clone", "--quiet", "../library", "build/clone"),
    "hooks from a template": _template_hooks,
    "gc": _gc,
    "merge": lambda w: (
        w.git("commit", "--quiet", "--allow-empty", "-m", "x"),
        w.git("merge", "--quiet", "--no-ff", "-m", "merge", "other"),
    ),
}


@pytest.mark.parametrize("name", HONEST)
def test_what_people_do_with_git_is_no_violation(world: World, name: str) -> None:
    world.write(".git/hooks/pre-push", "#!/bin/sh\n", 0o755)
    assert world.launch(HONEST[name]) == []


@pytest.mark.parametrize(
    ("name", "deed"),
    [("work tree", _worktree), ("work in a submodule", _update)],
)
def test_what_people_do_is_not_held_against_them(world: World, name: str, deed: Deed) -> None:
    assert [one for one in world.launch(deed) if one.fails] == [], name
    assert world.git("status", "--porcelain", at="vendor/lib") == ""
    world.look()


@pytest.mark.parametrize(
    "name",
    [
        "objects/info/commit-graph",
        "objects/ab/cdef",
    ],
)
def test_a_pipe_among_the_objects_is_removed_and_named(world: World, name: str) -> None:
    place = world.repo / ".git" / name

    def deed(_: World) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        os.mkfifo(place)

    found = world.launch(deed)
    assert any(place.name in one.text for one in found), found
    assert not os.path.lexists(place)
    world.look()


def test_a_submodule_that_was_moved_is_not_held_against_anybody(world: World) -> None:
    """Its new commit is recorded; what is not committed there is lost, so it is named."""

    def move(w: World) -> None:
        w.write("vendor/lib/new", "x")
        w.git("add", "new", at="vendor/lib")
        w.git("commit", "--quiet", "-m", "x", at="vendor/lib")

    assert world.launch(move) == []
    [found] = world.launch(lambda w: w.write("vendor/lib/more", "x"))
    assert found.subject == "submodule"


def test_what_was_there_before_is_the_users(world: World) -> None:
    """Hooks and programs of the user's own repositories stay, and so do links."""
    world.write("third/party/.git/hooks/pre-push", "#!/bin/sh\n", 0o755)
    world.append("third/party/.git/config", "[core]\n\tpager = less\n")
    world.git("replace", "HEAD", world.git("commit-tree", "HEAD^{tree}", "-m", "mine"))
    world.write("linked/x", "")
    (world.repo / "linked/.git").symlink_to(world.repo / "third/party/.git")
    assert world.launch(lambda w: w.git("remote", "add", "x", "../library", at="third/party")) == []
    assert "refs/replace" in world.git("for-each-ref")
    [found] = world.launch(lambda w: w.git("replace", "--delete", w.git("rev-parse", "HEAD")))
    assert "replace" in found.text
    assert "refs/replace" in world.git("for-each-ref")


def test_a_file_that_settings_include_is_guarded_in_every_work_tree(world: World) -> None:
    world.write(".gitconfig", "[alias]\n\tst = status\n")
    world.git("add", ".gitconfig")
    world.git("commit", "--quiet", "-m", "Third")
    world.git("config", "include.path", "../.gitconfig")
    lane = world.root / "lane"
    world.git("worktree", "add", "--quiet", "--detach", str(lane))
    asyncio.run(Repository(lane, world.repo / ".git/worktrees/lane").snapshot())
    found = world.launch(lambda w: w.append(str(lane / ".gitconfig"), w.monitor), lane)
    assert [".gitconfig" in one.text for one in found] == [True]
    assert (lane / ".gitconfig").read_text() == (world.repo / ".gitconfig").read_text()


@pytest.mark.parametrize("before", ["", "[alias]\n", None])
@pytest.mark.parametrize("name", ["include.path", "includeIf.onbranch:**.path"])
def test_a_file_that_settings_name_is_guarded_before_there_is_a_setting_in_it(
    world: World, name: str, before: str | None
) -> None:
    """Git lists no setting of such a file, and reads it as soon as there is one."""
    if before is not None:
        world.write("shared.ini", before)
    world.git("config", name, "../shared.ini")
    asyncio.run(Repository(world.repo, world.repo / ".git").snapshot())
    found = world.launch(lambda w: w.write("shared.ini", w.monitor))
    assert [one.fails for one in found if "shared.ini" in one.text] == [True]
    file = world.repo / "shared.ini"
    assert (file.read_text() if file.exists() else None) == before
    world.look()


def test_another_work_tree_is_out_of_reach(world: World) -> None:
    """What leads the git of another work tree is put back; one that somebody makes meanwhile is theirs."""
    other, common = world.root / "other", world.repo / ".git/worktrees/other"
    world.git("worktree", "add", "--quiet", "--detach", str(other))
    world.git("config", "extensions.worktreeConfig", "true")

    def deed(w: World) -> None:
        _common(w, ".git/worktrees/other")
        w.write(".git/worktrees/other/config.worktree", w.monitor)
        w.git("worktree", "add", "--quiet", "--detach", str(w.root / "mine"))

    found = world.launch(deed)
    said = " ".join(one.text for one in found if one.fails)
    assert all(f"worktrees/other/{name}," in said for name in ("commondir", "config.worktree"))
    assert "mine" not in said
    assert (common / "commondir").read_text().strip() == "../.."
    subprocess.run(["git", "status"], cwd=other, check=True, capture_output=True)
    assert not world.ran.exists()
    assert world.git("status", "--porcelain", at=str(world.root / "mine")) == ""


def test_a_branch_that_segue_has_moved_during_the_launch_stays_there(world: World) -> None:
    """Another lane may have been merged meanwhile."""
    old = world.git("rev-parse", "other")
    new = world.git("commit-tree", "other^{tree}", "-p", "other", "-m", "Merged")

    def deed(w: World) -> None:
        assert asyncio.run(Integration(Repository(w.repo, w.repo / ".git"), "other").advance(old, new))
        w.replace(".git/refs/heads/other", "pipe")

    assert "refs/heads/other" in " ".join(one.text for one in world.launch(deed))
    assert world.git("rev-parse", "other") == new
