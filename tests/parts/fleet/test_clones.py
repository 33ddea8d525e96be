"""Clones are made quickly from mirrors, by several processes at once, and run nothing a repository names."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from segue.domain.errors import UsageError, WorkspaceError
from segue.parts.fleet.git.addresses import canonical_url
from segue.parts.fleet.git.clones import Clones
from tests.parts.fleet.test_portable import count_gits
from tests.system.test_git import git, repo

__all__ = ["count_gits", "repo"]


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


def test_a_clone_of_a_known_commit_costs_two_gits(
    repo: Path, place: Path, count_gits: Callable[[], int]
) -> None:
    commit = head(repo)
    make(place, repo, commit, "first")
    count_gits()
    clone = make(place, repo, commit, "second")
    assert count_gits() == 2, "one of them reads the settings"
    (clone / "work").write_text("mine\n")
    assert make(place, repo, commit, "second") == clone
    assert count_gits() == 0
    assert (clone / "work").is_file()


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


def test_a_commit_that_no_branch_contains_is_fetched_by_its_name(repo: Path, place: Path) -> None:
    first = head(repo)
    commit = advance(repo)
    git(repo, "reset", "--quiet", "--hard", first)
    assert head(make(place, f"file://{repo}", commit)) == commit


def test_a_commit_that_does_not_exist_is_named(repo: Path, place: Path) -> None:
    with pytest.raises(WorkspaceError, match="does not have the commit") as caught:
        make(place, repo, "1" * 40)
    assert "Push" in caught.value.hint


def test_a_repository_that_cannot_be_reached_is_named(place: Path) -> None:
    with pytest.raises(WorkspaceError, match="cannot be fetched") as caught:
        make(place, "http://127.0.0.1:9/x/y.git", "1" * 40)
    assert "network" in caught.value.hint


class Locked(BaseHTTPRequestHandler):
    """A server that wants a password."""

    def do_GET(self) -> None:
        self.send_response(401)
        self.send_header("WWW-Authenticate", 'Basic realm="git"')
        self.end_headers()

    def log_message(self, *_args: object) -> None:
        """Say nothing."""


def test_a_repository_that_wants_a_password_asks_nobody(place: Path) -> None:
    server = HTTPServer(("127.0.0.1", 0), Locked)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with pytest.raises(WorkspaceError, match="cannot be fetched") as caught:
            make(place, f"http://127.0.0.1:{server.server_port}/private", "1" * 40)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert "Give this machine access" in caught.value.hint


def test_branches_that_were_deleted_and_renamed_are_followed(repo: Path, place: Path) -> None:
    git(repo, "branch", "a")
    make(place, repo, head(repo), "first")
    git(repo, "branch", "-D", "a")
    git(repo, "branch", "a/b")
    clone = make(place, repo, advance(repo), "second")
    assert git(clone, "branch", "--remotes").split() == ["origin/a/b", "origin/main"]


def test_what_the_remote_forgets_stays_in_clones(repo: Path, place: Path) -> None:
    first, lost = head(repo), advance(repo, "Lost")
    clone = make(place, repo, lost)
    git(repo, "reset", "--quiet", "--hard", first)
    for number in range(3):
        make(place, repo, advance(repo, f"Other {number}"), f"clone {number}")
    git(next((place / "cache").glob("*.git")), "gc", "--auto")
    assert git(clone, "log", "-1", "--format=%s") == "Lost"
    assert git(clone, "fsck", "--strict", "--no-dangling") == ""


def test_a_mirror_of_many_packs_is_joined_and_loses_nothing(repo: Path, place: Path) -> None:
    first, lost = head(repo), advance(repo, "Lost")
    clone = make(place, repo, lost)
    git(repo, "reset", "--quiet", "--hard", first)
    mirror = next((place / "cache").glob("*.git"))
    pack = next((mirror / "objects" / "pack").glob("*.pack"))
    for number in range(60):
        for suffix in (".pack", ".idx"):
            shutil.copy(pack.with_suffix(suffix), pack.with_name(f"pack-{number:040x}{suffix}"))
    make(place, repo, advance(repo), "second")
    assert len(list((mirror / "objects" / "pack").glob("*.pack"))) < 10
    assert git(clone, "log", "-1", "--format=%s") == "Lost"


@pytest.mark.thorough
def test_processes_that_open_the_same_mirror_wait_for_each_other(repo: Path, place: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.parts.fleet.portable_driver",
        str(repo),
        head(repo),
        str(place / "cache"),
    ]
    started = [subprocess.Popen([*command, str(place / f"clone {number}"), ""]) for number in range(4)]
    assert [process.wait() for process in started] == [0] * 4
    assert {head(place / f"clone {number}") for number in range(4)} == {head(repo)}
    assert len(list((place / "cache").glob("*.git"))) == 1


def test_clones_of_one_process_are_made_side_by_side(repo: Path, place: Path) -> None:
    async def work() -> list[Path]:
        clones = Clones(place / "cache")
        made = [clones.open(str(repo), head(repo), place / f"clone {number}") for number in range(8)]
        return [one.root for one in await asyncio.gather(*made)]

    assert {head(clone) for clone in asyncio.run(work())} == {head(repo)}


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


def test_clones_survive_an_emptied_cache(repo: Path, place: Path) -> None:
    clone = make(place, repo, head(repo))
    shutil.rmtree(place / "cache")
    assert make(place, repo, head(repo)) == clone
    assert git(clone, "fsck", "--strict", "--no-dangling") == ""


def test_a_mirror_that_was_about_to_be_removed_is_used_again(repo: Path, place: Path) -> None:
    first, lost = head(repo), advance(repo, "Lost")
    clone = make(place, repo, lost)
    git(repo, "reset", "--quiet", "--hard", first)
    mirror = next((place / "cache").glob("*.git"))
    mirror.rename(mirror.with_suffix(".aside"))
    make(place, repo, lost)
    assert git(clone, "log", "-1", "--format=%s") == "Lost"


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
    ("url", "canonical"),
    [
        ("https://github.com/o/r.git", "https://github.com/o/r"),
        ("https://me:secret@GitHub.com:443/o/r/", "https://github.com/o/r"),
        ("https://host:8443/o/r", "https://host:8443/o/r"),
        ("git@github.com:o/r.git", "git@github.com:o/r"),
        ("ssh://git@host:22/o/r.git/", "ssh://git@host/o/r"),
        ("host:o/r", "host:o/r"),
        ("/srv/git/r.git", "/srv/git/r"),
        ("/home/me/r/.git", "/home/me/r"),
        ("file:///srv/a%20b.git", "/srv/a b"),
        ("http://[::1]:8080/r", "http://[::1]:8080/r"),
        ("local:abc", "local:abc"),
    ],
)
def test_addresses_compare_without_what_does_not_matter(url: str, canonical: str) -> None:
    assert canonical_url(url) == canonical
    assert canonical_url(canonical) == canonical


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
