"""Clones are made quickly from mirrors, by several processes at once, and run nothing a repository names."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from segue.domain.errors import UsageError, WorkspaceError
from segue.features.fleet.git.addresses import canonical_url
from segue.features.fleet.git.clones import Clones
from tests.system.test_git import git, repo

__all__ = ["repo"]


@pytest.fixture
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("worker ü")


def head(repo: Path) -> str:
    return git(repo, "rev-parse", "HEAD")


def advance(repo: Path, message: str = "More") -> str:
    git(repo, "commit", "--quiet", "--allow-empty", "-m", message)
    return head(repo)


def make(place: Path, url: str | Path, commit: str, name: str = "clone", branch: str = "") -> Path:
    return asyncio.run(Clones(place / "cache").open(str(url), commit, place / name, branch=branch)).root


def test_a_clone_is_at_the_commit_and_knows_branches_tags_and_origin(repo: Path, place: Path) -> None:
    git(repo, "tag", "--annotate", "v1", "-m", "one")
    first = head(repo)
    advance(repo)
    clone = make(place, repo, first, branch="segue/run")
    assert head(clone) == first
    assert git(clone, "status", "--porcelain=v2", "--branch").splitlines()[1] == "# branch.head segue/run"
    assert git(clone, "describe") == "v1"
    assert git(clone, "rev-parse", "origin/main") == head(repo)
    assert git(clone, "remote", "get-url", "origin") == str(repo)
    assert git(clone, "fsck", "--strict", "--no-dangling") == ""
    assert git(make(place, repo, first, "other"), "branch", "--show-current") == ""


def test_only_what_is_new_is_fetched(repo: Path, place: Path) -> None:
    make(place, repo, head(repo))
    shutil.move(repo / ".git", place / "away")
    assert head(make(place, repo, head_of(place / "away"), "offline")) == head_of(place / "away")
    shutil.move(place / "away", repo / ".git")
    commit = advance(repo)
    assert head(make(place, repo, commit, "online")) == commit


def head_of(git_dir: Path) -> str:
    done = subprocess.run(
        ["git", f"--git-dir={git_dir}", "rev-parse", "main"], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_what_the_remote_forgets_stays_in_clones(repo: Path, place: Path) -> None:
    first, lost = head(repo), advance(repo, "Lost")
    clone = make(place, repo, lost)
    git(repo, "reset", "--quiet", "--hard", first)
    for number in range(3):
        make(place, repo, advance(repo, f"Other {number}"), f"clone {number}")
    git(next((place / "cache").glob("*.git")), "gc", "--auto")
    assert git(clone, "log", "-1", "--format=%s") == "Lost"
    assert git(clone, "fsck", "--strict", "--no-dangling") == ""


def test_a_half_made_clone_is_made_again_but_no_other_folder_is_touched(repo: Path, place: Path) -> None:
    clone = make(place, repo, head(repo))
    (clone / ".git" / "segue-clone").unlink()
    (clone / ".git" / "index.lock").touch()
    (clone / "file").unlink()
    assert git(make(place, repo, head(repo)), "status", "--porcelain") == ""
    (place / "mine").mkdir()
    (place / "mine" / "file").write_text("mine\n")
    with pytest.raises(WorkspaceError, match="not the clone"):
        make(place, repo, head(repo), "mine")
    with pytest.raises(WorkspaceError, match="not the clone"):
        make(place, repo, advance(repo), "clone")


def test_locks_and_pieces_of_a_killed_fetch_are_removed(repo: Path, place: Path) -> None:
    make(place, repo, head(repo), "first")
    mirror = next((place / "cache").glob("*.git"))
    for name in ("packed-refs.lock", "refs/heads/main.lock", "objects/pack/tmp_pack_x"):
        (mirror / name).touch()
    commit = advance(repo)
    assert head(make(place, repo, commit, "second")) == commit
    assert [
        path.name for path in mirror.rglob("*") if path.name.endswith(".lock") or "tmp_" in path.name
    ] == []


def test_mirrors_used_least_recently_are_removed_but_none_in_use(
    repo: Path, place: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    urls = []
    for name in ("one", "two", "three"):
        url = tmp_path_factory.mktemp("urls") / name
        shutil.copytree(repo, url)
        urls.append(url)
        make(place, url, head(repo), name)
    clones = Clones(place / "cache")
    for name in ("one", "two"):
        clones.forget(place / name)
        assert not (place / name).exists()
    for number, url in enumerate(urls):
        (users,) = [
            path.with_name(path.name.replace(".git", ".clones"))
            for path in (place / "cache").glob("*.git")
            if (path / "description").read_text().strip() == str(url)
        ]
        os.utime(users, (1000 - number, 1000 - number))
    assert asyncio.run(clones.trim(10**9)) == []
    one = next((place / "cache").glob("*.git"))
    each = sum(path.stat().st_size for path in one.rglob("*") if path.is_file())
    assert asyncio.run(clones.trim(each * 5 // 2)) == [str(urls[1])]
    assert asyncio.run(clones.trim(0)) == [str(urls[0])]
    assert git(place / "three", "fsck", "--strict", "--no-dangling") == ""


def test_a_hostile_repository_runs_nothing(repo: Path, place: Path) -> None:
    """Hooks, filters, a file system monitor, and a submodule with an address that is a command."""
    trap = place / "trapped"
    command = f"touch '{trap}'"
    (repo / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    (repo / ".gitmodules").write_text(f'[submodule "x"]\n\tpath = x\n\turl = "ext::sh -c touch% {trap}"\n')
    (repo / ".gitconfig").write_text(f"[core]\n\tfsmonitor = {command}\n")
    git(repo, "add", "--all")
    git(repo, "update-index", "--add", "--cacheinfo", f"160000,{head(repo)},x")
    git(repo, "commit", "--quiet", "-m", "Hostile")
    for name in ("post-checkout", "post-update", "reference-transaction", "pre-push"):
        hook = repo / ".git" / "hooks" / name
        hook.parent.mkdir(exist_ok=True)
        hook.write_text(f"#!/bin/sh\n{command}\n")
        hook.chmod(0o755)
    for setting in ("core.fsmonitor", "filter.evil.smudge", "filter.evil.clean", "core.sshCommand"):
        git(repo, "config", setting, command)
    trap.unlink(missing_ok=True)
    clone = make(place, repo, head(repo), branch="segue/run")
    assert git(clone, "status", "--porcelain") == ""
    assert not trap.exists()
    assert list((clone / "x").iterdir()) == []


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            " ",
            "-x",
            "--upload-pack=touch x",
            "ext::sh -c x",
            "ext::https://host/x",
            "relative/path",
            "x",
        ),
        *("https://host/\nx", "file://host/x", "file://relative", "javascript://x/y", "https:///x"),
        *(
            "ssh://-oProxyCommand=x/y",
            "ssh://-x@host/y",
            "host:-x",
            "https://[x/y",
            "https://host:no/x",
            "fd::17",
        ),
    ],
)
def test_addresses_that_are_not_of_a_repository_are_refused(url: str, place: Path) -> None:
    with pytest.raises(UsageError):
        canonical_url(url)
    with pytest.raises(UsageError):
        make(place, url, "1" * 40)
    assert list(place.iterdir()) == []


def test_a_password_in_an_address_is_refused(place: Path) -> None:
    with pytest.raises(UsageError, match="password") as caught:
        make(place, "https://me:secret@host/x", "1" * 40)
    assert "secret" not in caught.value.message
