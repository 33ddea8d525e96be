"""A GitHub simulator for tests: a bare repository with two branches, and clients of two people."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
from msgspec import Struct
from msgspec.structs import replace

from segue.parts.sim.github.app import github_app
from segue.parts.sim.github.script import GithubRepo, GithubScript, GithubToken
from segue.system.http.server import start_server
from tests import loopback
from tests.templates import copy_template

NAME = "acme/shop"
REPO = f"/repos/{NAME}"
ISSUES: list[dict[str, Any]] = [
    {"title": "First", "body": "The first one.", "labels": ["ready"], "milestone": "v1"},
    {"title": "Second", "labels": ["ready"], "blocked_by": [1]},
    {"title": "Third"},
]
TOKENS = {"bot-token": GithubToken(login="bot"), "alice-token": GithubToken(login="alice")}


class HubDesk(Struct):
    """A running simulator, a clone of its repository, and clients."""

    url: str
    socket: Path
    bare: Path
    clone: Path
    bot: httpx2.Client
    alice: httpx2.Client

    def push(self, branch: str, name: str, text: str) -> str:
        """Push a commit and return its id."""
        known = git(self.clone, "branch", "--list", branch)
        git(self.clone, "checkout", "-q", *(() if known else ("-b",)), branch)
        (self.clone / name).write_text(text)
        git(self.clone, "add", ".")
        git(self.clone, "commit", "-q", "-m", f"Write {name}")
        git(self.clone, "push", "-q", "origin", branch)
        return git(self.clone, "rev-parse", "HEAD")


def git(where: Path, *arguments: str) -> str:
    """Run git and return what it prints."""
    names = {
        f"GIT_{who}_{what}": "t@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    done = subprocess.run(
        ["git", *arguments],
        cwd=where,
        env={**os.environ, **names},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def _make_repositories(place: Path) -> None:
    bare, clone = place / "shop.git", place / "clone"
    git(place, "init", "-q", "--bare", "-b", "main", str(bare))
    git(place, "clone", "-q", str(bare), str(clone))
    git(clone, "checkout", "-q", "-b", "main")
    # gh finds the repository by the address that is fetched from.
    git(clone, "remote", "set-url", "--push", "origin", str(bare))
    git(clone, "remote", "set-url", "origin", f"https://github.com/{NAME}.git")


@contextmanager
def open_desk(
    place: Path, script: GithubScript | None = None, issues: Sequence[dict[str, Any]] = ISSUES
) -> Iterator[HubDesk]:
    """Run a simulator with one repository."""
    copy_template(_make_repositories, place)
    bare, clone = place / "shop.git", place / "clone"
    repo = GithubRepo(
        bare=bare, collaborators=["bot"], labels=["ready", "bug"], milestones=["v1"], issues=issues
    )
    wanted = script or GithubScript()
    wanted = replace(wanted, repos={NAME: repo, **wanted.repos}, tokens={**TOKENS, **wanted.tokens})
    socket = place / "gh.sock"
    url, stop = start_server(github_app(wanted), 0, socket)
    try:
        with open_client(url, "bot-token") as bot, open_client(url, "alice-token") as alice:
            desk = HubDesk(url, socket, bare, clone, bot, alice)
            desk.push("main", "a.txt", "a\n")
            desk.push("feature", "b.txt", "b\n")
            yield desk
    finally:
        stop()


def open_client(url: str, token: str) -> httpx2.Client:
    """Return a client with a token."""
    headers = {"authorization": f"Bearer {token}"}
    return loopback.client(base_url=url, headers=headers, timeout=300)


class GhProgram:
    """The real gh, pointed at a simulator."""

    def __init__(self, home: Path, desk: HubDesk, token: str = "bot-token") -> None:
        program = shutil.which("gh")
        assert program
        self._program = program
        self._clone = desk.clone
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TMPDIR": str(home),
            "GH_CONFIG_DIR": str(home / "gh"),
            "GH_PROMPT_DISABLED": "1",
            "GH_NO_UPDATE_NOTIFIER": "1",
            "NO_COLOR": "1",
            "GH_TOKEN": token,
            "GH_REPO": NAME,
        }
        home.mkdir(parents=True, exist_ok=True)
        self("config", "set", "http_unix_socket", str(desk.socket))

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """Run it and return what it prints."""
        done = subprocess.run(
            [self._program, *arguments],
            env=self.environment,
            cwd=self._clone,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr
