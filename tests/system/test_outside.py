"""Git outside of the sandbox runs nothing that an agent wrote, wherever that is, and still works."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from segue.domain.errors import WorkspaceError
from segue.proof.inputs import Trees, list_inputs
from segue.reviewers.tool import in_changed_files
from segue.system.git import outside
from segue.system.git.branches import LocalBranches, RemoteBranches
from segue.system.git.index import take_snapshot
from segue.system.git.integration import Integration
from segue.system.git.lanes import LaneTrees
from segue.system.git.remotes import name_unseen
from segue.system.git.repository import Repository
from segue.system.git.scratch import clone_at
from segue.system.git.worktree import Worktree
from segue.system.lane import list_shared
from tests.system.test_git import git, repo

__all__ = ["repo"]

RUN = "20261115-010203-abcd"


class Trap:
    """A repository, and a program that leaves a mark beside it when somebody starts it."""

    def __init__(self, repo: Path, beside: Path) -> None:
        self.repo, self.beside, self.mark = repo, beside, beside / "ran"
        self.program = repo / "tools" / "evil"
        self.program.parent.mkdir()
        # It does what a filter, a hook or a driver would, so that git continues.
        self.program.write_text(f'#!/bin/sh\necho "$0 $*" >> {self.mark}\n[ -p /dev/stdin ] && cat\nexit 0\n')
        self.program.chmod(0o755)
        self.lane: Path = beside

    def config(self, name: str, value: str, file: Path | None = None) -> None:
        git(self.repo, "config", "--file", str(file or self.repo / ".git" / "config"), "--add", name, value)

    def attributes(self, line: str) -> None:
        (self.repo / ".gitattributes").write_text(f"{line}\n")

    def make_evil_git(self, folder: Path) -> None:
        """Make a repository in which nearly every git starts the program."""
        subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
        (folder / "x").write_text("x\n")
        git(folder, "add", "--all")
        git(folder, "-c", "user.name=E", "-c", "user.email=e@e", "commit", "--quiet", "-m", "Evil")
        self.config("core.fsmonitor", str(self.program), folder / ".git" / "config")
        for name in HOOKS:
            shutil.copy(self.program, folder / ".git" / "hooks" / name)


HOOKS = (
    *("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "pre-merge-commit", "post-merge"),
    *(
        "post-checkout",
        "pre-push",
        "reference-transaction",
        "post-index-change",
        "pre-auto-gc",
        "post-rewrite",
    ),
)


def _setting(name: str, value: str = "{program}") -> Callable[[Trap], None]:
    return lambda trap: trap.config(name, value.format(program=trap.program))


def _hooks_path(trap: Trap) -> None:
    (trap.repo / ".husky").mkdir()
    for name in HOOKS:
        shutil.copy(trap.program, trap.repo / ".husky" / name)
    trap.config("core.hooksPath", ".husky")


def _include_if(trap: Trap) -> None:
    trap.config(f"includeIf.gitdir:{trap.beside.parent}/**.path", "../.gitconfig")
    trap.config("includeIf.onbranch:**.path", "../.gitconfig")
    (trap.repo / ".gitconfig").write_text(f"[core]\n\tfsmonitor = {trap.program}\n")


def _one_line(trap: Trap) -> None:
    with (trap.repo / ".git" / "config").open("a") as file:
        file.write(f"[user]\n[core] fsmonitor = {trap.program}\n")


def _filter(step: str) -> Callable[[Trap], None]:
    def plant(trap: Trap) -> None:
        trap.config(f"filter.x.{step}", str(trap.program))
        trap.attributes("* filter=x")

    return plant


def _merge_driver(trap: Trap) -> None:
    trap.config("merge.x.driver", f"{trap.program} %A %O %B")
    trap.attributes("* merge=x")


def _remote(url: str, name: str = "", value: str = "{program}") -> Callable[[Trap], None]:
    def plant(trap: Trap) -> None:
        git(trap.repo, "config", "remote.origin.url", url.format(program=trap.program))
        if name:
            trap.config(name, value.format(program=trap.program))

    return plant


def _signer(trap: Trap) -> None:
    trap.config("commit.gpgSign", "true")
    trap.config("gpg.program", str(trap.program))


def _submodule(trap: Trap) -> None:
    """Give the submodule that is there a monitor, in the folder that the agent can write."""
    module = trap.repo / "vendor" / "lib"
    real = trap.repo / ".git" / "modules" / "vendor" / "lib"
    (module / ".git").unlink()
    shutil.copytree(real, module / ".git")
    git(trap.repo, "config", "--file", str(module / ".git" / "config"), "--unset", "core.worktree")
    trap.config("core.fsmonitor", str(trap.program), module / ".git" / "config")
    (module / "deep").write_text("changed\n")
    (module / "new").write_text("new\n")


def _worktree_config(trap: Trap) -> None:
    trap.config("core.repositoryFormatVersion", "1")
    trap.config("extensions.worktreeConfig", "true")
    trap.config("core.fsmonitor", str(trap.program), trap.repo / ".git" / "config.worktree")


def _commondir(trap: Trap) -> None:
    trap.make_evil_git(trap.repo / "evil")
    (trap.repo / ".git" / "commondir").write_text(f"{trap.repo}/evil/.git\n")


def _lane_link(trap: Trap) -> None:
    trap.make_evil_git(trap.repo / "evil")
    (trap.lane / ".git").write_text(f"gitdir: {trap.repo}/evil/.git\n")


def _global_hooks(trap: Trap) -> None:
    _hooks_path(trap)
    trap.config("core.hooksPath", ".husky", Path(os.environ["GIT_CONFIG_GLOBAL"]))
    trap.config("core.fsmonitor", "tools/evil", Path(os.environ["GIT_CONFIG_GLOBAL"]))


def _configured_hooks(trap: Trap) -> None:
    trap.config("hook.x.command", str(trap.program))
    for event in HOOKS:
        trap.config("hook.x.event", event)


TRICKS: dict[str, Callable[[Trap], None]] = {
    "fsmonitor in one line": _one_line,
    "hooks in the tree": _hooks_path,
    "hooks that settings name": _configured_hooks,
    "include by condition": _include_if,
    "clean filter": _filter("clean"),
    "merge driver": _merge_driver,
    "ssh": _remote("ssh://nobody.invalid/x", "core.sshCommand"),
    "external protocol": _remote("ext::{program}", "protocol.ext.allow", "always"),
    "upload pack": _setting("remote.origin.uploadpack"),
    "credential helper": _setting("credential.helper", "!{program}"),
    "signing program": _signer,
    "gc hook": _setting("gc.recentObjectsHook"),
    "submodule": _submodule,
    "settings of a work tree": _worktree_config,
    "commondir": _commondir,
    ".git of a lane": _lane_link,
    "the user's hooks in the tree": _global_hooks,
}


@pytest.fixture
def trap(repo: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Trap:
    beside = tmp_path_factory.mktemp("beside")
    inner = beside / "inner"
    git(beside, "init", "--quiet", "inner")
    (inner / "deep").write_text("old\n")
    git(inner, "add", "--all")
    git(inner, "commit", "--quiet", "-m", "Inner")
    git(repo, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner), "vendor/lib")
    found = Trap(repo, beside)
    (repo / "gitconfig").write_text("[user]\n\tname = T\n\temail = t@localhost\n")
    shutil.copy(repo / "gitconfig", beside / "gitconfig")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(beside / "gitconfig"))
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "-m", "With a submodule")
    git(repo, "branch", "other")
    git(beside, "clone", "--quiet", "--bare", str(repo), "remote.git")
    git(repo, "remote", "add", "origin", str(beside / "remote.git"))
    return found


async def _work(trap: Trap, plant: Callable[[Trap], None]) -> None:
    """Do everything that Segue does with git, before and after a trap was laid; it may refuse."""
    home = await Repository.open(trap.repo)
    lanes = LaneTrees(home, trap.beside / "lanes", RUN)
    git(trap.repo, "branch", f"segue/{RUN}")
    head = await home.head()
    lane = await lanes.open(1, head)
    trap.lane = lane.root
    plant(trap)
    (trap.repo / "file").write_text("by the agent\n")
    (lane.root / "file").write_text("by another agent\n")
    remote = RemoteBranches(home, "origin", trap.beside / "scratch")
    own = Integration(home, f"segue/{RUN}")
    steps = (
        lambda: take_snapshot(home),
        lambda: _commit(home),
        lambda: _commit(lane),
        lambda: lanes.prepare(lane, head),
        lambda: lanes.open(2, head),
        lambda: lanes.close(),
        lambda: Worktree(home, trap.beside / "tree", f"segue/{RUN}", RUN).enter(False),
        lambda: LocalBranches(home, "segue/x").begin("1", None),
        lambda: _merge(home, own),
        lambda: home.fetch("origin", "refs/heads/main", "refs/segue/base"),
        lambda: home.git("push", "origin", "HEAD:refs/heads/pushed"),
        lambda: remote.default_branch(),
        lambda: _check_out(remote, head),
        lambda: clone_at(home, trap.beside / "clone", head=head, branch="main", tree=""),
        lambda: in_changed_files(trap.repo, head, ()),
        lambda: name_unseen(home, head, [trap.repo / "file"]),
        lambda: list_inputs(Trees(trap.repo, trap.repo), trap.beside / "inputs"),
        lambda: asyncio.to_thread(list_shared, trap.repo, lane.root),
        lambda: _set_aside(home),
        lambda: home.recover(0.0, 0.0),
        lambda: Repository.open(trap.repo),
    )
    for step in steps:
        with contextlib.suppress(WorkspaceError):
            await step()


async def _commit(repo: Repository) -> None:
    now = await repo.snapshot()
    await repo.tree(now)
    await repo.patch(now.head, now)
    await repo.commit("Work\n\nSegue-Task: 1\n")
    (repo.root / "file").write_text("once more\n")
    await repo.commit("More\n")
    await repo.find_commit("", "Segue-Task: 1")


async def _merge(home: Repository, own: Integration) -> None:
    await home.git("switch", "--quiet", "--force", "main")
    ours = await home.head()
    merged = await own.merge(ours, await home.branch_head("other"))
    await own.join(ours, await home.branch_head("other"), merged.tree, "Merge\n")
    await home.git("merge", "--quiet", "--no-edit", "--no-ff", "other")


async def _check_out(remote: RemoteBranches, head: str) -> None:
    async with remote.checkout(head) as folder:
        assert (folder / "file").is_file()


async def _set_aside(home: Repository) -> None:
    (home.root / "file").write_text("aside\n")
    await home.set_aside("aside")


@pytest.mark.parametrize("trick", TRICKS)
def test_nothing_that_an_agent_wrote_is_started(
    trap: Trap, trick: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "settings in the tree" in trick:
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(trap.repo / "gitconfig"))
    asyncio.run(_work(trap, TRICKS[trick]))
    assert not trap.mark.exists(), trap.mark.read_text()


def _replaced(trap: Trap, name: str, how: Callable[[Path], None]) -> str:
    """Replace a file of the git folder, and return what Segue says when it looks."""
    place = trap.repo / name
    with contextlib.suppress(FileNotFoundError):
        place.unlink()
    place.parent.mkdir(exist_ok=True)
    how(place)

    async def look() -> None:
        await Repository(trap.repo, trap.repo / ".git").snapshot()

    with pytest.raises(WorkspaceError) as refused:
        asyncio.run(look())
    return refused.value.message


@pytest.mark.parametrize(
    "name",
    [
        *(".git/HEAD", ".git/index", ".git/config", ".git/packed-refs", ".git/shallow", ".git/info/exclude"),
        *(".git/info/attributes", ".git/refs/heads/main", ".git/logs/HEAD", ".gitignore", ".gitattributes"),
    ],
)
def test_git_is_not_started_where_it_would_wait_for_a_pipe(trap: Trap, name: str) -> None:
    assert f"{name} is neither a file nor a folder" in _replaced(trap, name, os.mkfifo)


@pytest.mark.parametrize("name", ["index", "logs/HEAD", "logs/refs/heads/main", "packed-refs", "HEAD"])
def test_git_does_not_write_through_a_link(trap: Trap, name: str) -> None:
    target = trap.beside / ".bashrc"
    target.write_text("mine\n")
    said = _replaced(trap, f".git/{name}", lambda place: place.symlink_to(target))
    assert f"{name} is a link to" in said
    assert target.read_text() == "mine\n"


async def _commit_once(repo: Path, text: str) -> str:
    (repo / "file").write_text(text)
    found = await Repository.open(repo)
    commit = await found.commit("Work\n")
    assert commit is not None
    assert not (await found.snapshot()).dirty
    return commit


def test_an_included_file_in_the_tree_gives_a_name_but_no_program(trap: Trap) -> None:
    git(trap.repo, "config", "--unset-all", "user.name")
    trap.config("include.path", "../.gitconfig")
    (trap.repo / ".gitconfig").write_text(
        f"[core]\n\tfsmonitor = {trap.program}\n[user]\n\tname = Included\n"
    )
    commit = asyncio.run(_commit_once(trap.repo, "new\n"))
    assert git(trap.repo, "-c", "core.fsmonitor=false", "log", "-1", "--format=%an", commit) == "Included"
    assert not trap.mark.exists()


def test_large_files_become_pointers(trap: Trap, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = trap.beside / "bin"
    folder.mkdir()
    lines = ("store=$(git config lfs.storage)", "mkdir -p $store", "cat > $store/object")
    (folder / "git-lfs").write_text("\n".join(("#!/bin/sh", *lines, "echo version https://git-lfs\n")))
    (folder / "git-lfs").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    trap.config("filter.lfs.clean", "git-lfs clean -- %f", trap.beside / "gitconfig")
    trap.attributes("file filter=lfs")
    commit = asyncio.run(_commit_once(trap.repo, "large\n"))
    assert git(trap.repo, "show", f"{commit}:file") == "version https://git-lfs"
    assert (trap.repo / ".git" / "lfs" / "object").read_text() == "large\n", "its store is the repository's"


_ELSEWHERE = (
    "agents/scripted/",
    "cli/run/demo/",
    "system/git/outside.py",
    "system/process/",
)
"""Actors that play others, and the door itself."""


def test_there_is_one_door_to_git() -> None:
    top = Path(outside.__file__).parents[2]
    started = re.compile(r"""[\[(]\s*["']git["'],\s*(\*|["'](?!git\.exe))""")
    files = (path for path in top.rglob("*.py") if not str(path.relative_to(top)).startswith(_ELSEWHERE))
    assert {str(path.relative_to(top)) for path in files if started.search(path.read_text())} == _SHOWN


_SHOWN = {"runtime/doctor.py"}
"""Command lines that are shown to people."""
