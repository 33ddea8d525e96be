"""A cloud simulator on loopback with a real bare repository, and short words to talk to it."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from segue.parts.sim.cloud.app import cloud_app
from segue.parts.sim.cloud.script import CloudScript
from segue.sim.script import check_script
from segue.system.http.server import start_server
from tests import loopback
from tests.templates import copy_template

REPO = "https://github.com/Me/App"
DEADLINE = 300.0
_GIT = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
_IDENTITY = ("-c", "user.name=T", "-c", "user.email=t@localhost")


def git(where: Path, *args: str) -> str:
    done = subprocess.run(
        ["git", *_IDENTITY, *args],
        cwd=where,
        env=os.environ | _GIT,
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def bare_repository(folder: Path) -> Path:
    """A bare repository with one commit on `main`."""
    copy_template(_make_repository, folder)
    return folder / "app.git"


def _make_repository(folder: Path) -> None:
    bare, work = folder / "app.git", folder / "work"
    git(folder, "init", "--quiet", "--bare", "--initial-branch=main", str(bare))
    git(folder, "clone", "--quiet", str(bare), str(work))
    git(work, "checkout", "--quiet", "-b", "main")
    (work / "README.md").write_text("An app\n")
    git(work, "add", "--all")
    git(work, "commit", "--quiet", "-m", "First")
    git(work, "push", "--quiet", "origin", "main")


@dataclass(frozen=True)
class Desk:
    """The simulator's address, a client with a key, and the bare repository."""

    url: str
    http: httpx2.Client
    bare: Path

    def get(self, path: str, /, **params: Any) -> Any:
        answer = self.http.get(path, params=params)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None, status: int = 200) -> Any:
        answer = self.http.post(path, json=body) if body is not None else self.http.post(path)
        assert answer.status_code == status, answer.text
        return answer.json()

    def launch(self, text: str = "Write a poem", **more: Any) -> tuple[str, str]:
        """Create an agent in the repository; gives its id and its run's."""
        body = {"prompt": {"text": text}, "repos": [{"url": REPO}], **more}
        made = self.post("/v1/agents", body, 201)
        return made["agent"]["id"], made["run"]["id"]

    def follow(self, agent: str, text: str = "Go on") -> str:
        run: str = self.post(f"/v1/agents/{agent}/runs", {"prompt": {"text": text}}, 201)["run"]["id"]
        return run

    def run(self, agent: str, run: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/v1/agents/{agent}/runs/{run}")
        return found

    def until(self, agent: str, run: str, *statuses: str) -> dict[str, Any]:
        """Wait until the run has one of the statuses."""
        found: dict[str, Any] = wait_for(
            lambda: self.run(agent, run), lambda seen: seen["status"] in statuses
        )
        return found

    def done(self, text: str = "Write a poem", **more: Any) -> tuple[str, dict[str, Any]]:
        """Launch and wait for the end; gives the agent's id and the run."""
        agent, run = self.launch(text, **more)
        return agent, self.until(agent, run, "FINISHED", "ERROR", "EXPIRED", "CANCELLED")

    def plays(self, **entry: Any) -> None:
        """The next launches do this."""
        self.post("/_sim/on", [entry])

    def breaks(self, fault: str, on: str = "", **more: Any) -> None:
        """The next request that fits goes wrong."""
        self.post("/_sim/faults", [{"fault": fault, "on": on, **more}])

    def log(self, **params: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.get("/_sim/log", **params)["requests"]
        return found

    def git(self, *args: str) -> str:
        return git(self.bare, *args)


@contextmanager
def open_desk(folder: Path, **script: Any) -> Iterator[Desk]:
    """A simulator that plays the script."""
    bare = bare_repository(folder)
    app = cloud_app(check_script(script, CloudScript), {REPO: bare})
    url, stop = start_server(app)
    headers = {"Authorization": "Bearer crsr_test"}
    try:
        with loopback.client(base_url=url, headers=headers, timeout=DEADLINE) as client:
            yield Desk(url, client, bare)
    finally:
        stop()


def wait_for(look: Callable[[], Any], wanted: Callable[[Any], bool]) -> Any:
    """Look until it is as wanted, or the deadline has passed."""
    deadline = time.monotonic() + DEADLINE
    while not wanted(found := look()):
        assert time.monotonic() < deadline, found
        time.sleep(0.01)
    return found


@dataclass(frozen=True)
class Event:
    """One event of a stream."""

    id: str | None
    name: str
    data: dict[str, Any]


def events(raw: bytes) -> list[Event]:
    """The whole events of a stream, read as strictly as the official SDK reads them."""
    assert b"\r" not in raw
    *blocks, _rest = raw.decode().split("\n\n")
    found = []
    for block in blocks:
        lines = [line.partition(": ") for line in block.split("\n")]
        fields = {name: value for name, _, value in lines}
        assert set(fields) <= {"id", "event", "data"}
        found.append(Event(fields.get("id"), fields["event"], json.loads(fields["data"])))
    return found
