"""Cursor's cloud with a bare repository, a cloud agent of ours, and short words for what is asked of them."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import httpx2

from segue.agents.cursor_cloud.agent import CursorCloudAgent
from segue.agents.cursor_cloud.api import CursorCloudOptions
from segue.domain.events import AgentText
from segue.domain.job import Job, Limits
from segue.domain.options import read_options
from segue.domain.outcome import Outcome
from segue.domain.task import Task
from segue.prompts.task import execute_prompt
from segue.system.process.processes import Processes
from tests import loopback
from tests.agents.items import Items, T, lend, of, outcome, run_to_end
from tests.fakes.cursor_cloud import fault, make_app
from tests.fakes.serving import serve
from tests.templates import copy_template

KEY = "crsr_0123456789abcdef0123456789abcdef"
REPO = "https://github.com/Me/App"
DEADLINE = 300.0
LAUNCH = "POST /v1/agents"
FOLLOW_UP = "POST /v1/agents/*/runs"
LOOK = "GET /v1/agents/*/runs/*"
STREAM = "GET /v1/agents/*/runs/*/stream"
CANCEL = "POST /v1/agents/*/runs/*/cancel"


def git(where: Path, *args: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=T", "-c", "user.email=t@localhost", *args],
        cwd=where,
        env=os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _make_repository(folder: Path) -> None:
    """Make a bare repository with one commit on `main`, and a clone of it."""
    bare, work = folder / "app.git", folder / "work"
    git(folder, "init", "--quiet", "--bare", "--initial-branch=main", str(bare))
    git(folder, "clone", "--quiet", str(bare), str(work))
    git(work, "checkout", "--quiet", "-b", "main")
    (work / "README.md").write_text("An app\n")
    git(work, "add", "--all")
    git(work, "commit", "--quiet", "-m", "First")
    git(work, "push", "--quiet", "origin", "main")


def wait_for(look: Callable[[], Any]) -> None:
    """Look until it is so, or the deadline has passed."""
    deadline = time.monotonic() + DEADLINE
    while not look():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@dataclass(frozen=True)
class Ended:
    """Everything a job yielded."""

    items: Items

    @property
    def outcome(self) -> Outcome:
        return outcome(self.items)

    @property
    def kind(self) -> str | None:
        failure = self.outcome.failure
        return failure.kind.value if failure else None

    @property
    def message(self) -> str:
        failure = self.outcome.failure
        return failure.message if failure else ""

    @property
    def facts(self) -> Any:
        return self.outcome.facts

    def of(self, kind: type[T]) -> list[T]:
        return of(self.items, kind)

    @property
    def said(self) -> str:
        return "".join(event.text for event in self.of(AgentText))


@dataclass(frozen=True)
class CloudPlace:
    """The cloud, a folder for Segue's own files, and agents with short pauses."""

    url: str
    folder: Path
    http: httpx2.Client

    def get(self, path: str) -> Any:
        answer = self.http.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None, status: int = 200) -> Any:
        answer = self.http.post(path, json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    def plays(self, **entry: Any) -> None:
        """The next launches do this."""
        self.post("/_sim/on", [entry])

    def breaks(self, name: str, on: str, **more: Any) -> None:
        """The next request that fits goes wrong."""
        self.post("/_sim/faults", [fault(name, on, **more)])

    def asked(self, pattern: str = "*") -> list[dict[str, Any]]:
        """The requests that fit a method and a path."""
        found = self.get("/_sim/log")["requests"]
        return [one for one in found if _fits(pattern, f"{one['method']} {one['path']}")]

    @property
    def launched(self) -> int:
        """How many agents there are, which is what costs money."""
        return int(self.get("/_sim/state")["agents"])

    @property
    def active(self) -> int:
        return int(self.get("/_sim/state")["active"])

    def git(self, *args: str) -> str:
        return git(self.folder / "app.git", *args)

    def options(self, **more: Any) -> CursorCloudOptions:
        given = {"base_url": self.url, "repository": REPO, "poll_interval": 0.05, "retry_pause": 0.02}
        return read_options(CursorCloudOptions, given | more)

    @asynccontextmanager
    async def agent(self, **options: Any) -> AsyncIterator[CursorCloudAgent]:
        async with Processes(self.folder / "run") as processes:
            yield CursorCloudAgent(self.options(**options), lend(processes, KEY))

    def run(self, job: Job, **options: Any) -> Ended:
        """Run the job in an event loop of its own, as a Segue that was started again would."""

        async def collect() -> Ended:
            async with self.agent(**options) as agent, asyncio.timeout(DEADLINE):
                return Ended(await run_to_end(agent, job))

        return asyncio.run(collect())

    def job(self, text: str = "Write a poem", wall: float = 50.0, idle: float = 50.0, **more: Any) -> Job:
        given: dict[str, Any] = {
            "token": uuid.uuid4().hex,
            "prompt": execute_prompt(Task("1", text, ""), ""),
            "workspace": self.folder,
            "limits": Limits(wall=wall, idle=idle),
        }
        return Job(**(given | more))


def _fits(pattern: str, request: str) -> bool:
    return pattern.count("/") in (0, request.count("/")) and fnmatch(request, pattern)


@contextmanager
def open_place(folder: Path, *entries: dict[str, Any]) -> Iterator[CloudPlace]:
    """A place whose agents do what the entries say."""
    copy_template(_make_repository, folder)
    with serve(make_app({"on": list(entries)}, {REPO: folder / "app.git"})) as url:
        headers = {"Authorization": f"Bearer {KEY}"}
        with loopback.client(base_url=url, headers=headers, timeout=DEADLINE) as client:
            yield CloudPlace(url, folder, client)
