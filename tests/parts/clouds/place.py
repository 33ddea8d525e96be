"""Cloud agents beside Cursor's against their simulators, and short words for what tests ask of them."""

from __future__ import annotations

import asyncio
import subprocess
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from segue.agents.cloud.agent import CloudAgent, CloudKind
from segue.domain.job import Job, Limits
from segue.domain.options import read_options
from segue.domain.task import Task
from segue.parts.clouds.claude import CLAUDE_CLOUD
from segue.parts.clouds.copilot import COPILOT_CLOUD
from segue.parts.clouds.devin import DEVIN as DEVIN_AGENT
from segue.parts.clouds.jules import JULES as JULES_AGENT
from segue.parts.clouds.sim.app import SimVendor
from segue.parts.clouds.sim.claude import CLAUDE
from segue.parts.clouds.sim.copilot import COPILOT
from segue.parts.clouds.sim.devin import DEVIN
from segue.parts.clouds.sim.jules import JULES
from segue.parts.clouds.sim.script import SessionScript
from segue.prompts.task import execute_prompt
from segue.sim.script import check_script
from segue.system.http.server import start_server
from segue.system.process.processes import Processes
from segue.system.services import Services
from tests.agents.cloud_place import Ended
from tests.agents.items import lend
from tests.parts.sim.cloud_desk import DEADLINE, REPO, bare_repository, git

SECRET = "sk_0123456789abcdef0123456789"


@dataclass(frozen=True)
class Vendor:
    """A vendor's agent and simulator, the paths of its API, and what its agent needs."""

    kind: CloudKind
    sim: SimVendor
    launch: str
    listing: str
    look: str
    env: Mapping[str, str]
    options: Mapping[str, Any] = field(default_factory=dict)
    base: str = ""
    """What the address of the API ends with."""

    @property
    def name(self) -> str:
        return self.kind.profile.name

    def in_repository(self, name: str) -> Vendor:
        """The same with the paths of this repository, for an API that has it in them."""
        return replace(self, launch=self.launch.format(name), listing=self.listing.format(name))


_ORG = "/v3/organizations/org-1"
VENDORS = [
    Vendor(
        CLAUDE_CLOUD,
        CLAUDE,
        *("POST /v1/sessions", "GET /v1/sessions", "GET /v1/sessions/*"),
        {"ANTHROPIC_API_KEY": SECRET},
        {"agent_id": "agent_1", "environment_id": "env_1"},
    ),
    Vendor(
        DEVIN_AGENT,
        DEVIN,
        *(f"POST {_ORG}/sessions", f"GET {_ORG}/sessions", f"GET {_ORG}/sessions/*"),
        {"DEVIN_API_KEY": SECRET, "DEVIN_ORG_ID": "org-1"},
    ),
    Vendor(
        JULES_AGENT,
        JULES,
        *("POST /v1alpha/sessions", "GET /v1alpha/sessions", "GET /v1alpha/sessions/*"),
        {"JULES_API_KEY": SECRET},
        base="/v1alpha",
    ),
    Vendor(
        COPILOT_CLOUD,
        COPILOT,
        *("POST /agents/repos/{}/tasks", "GET /agents/repos/{}/tasks", "GET /agents/tasks/*"),
        {"GH_TOKEN": SECRET},
    ),
]


@dataclass(frozen=True)
class SessionPlace:
    """A simulator, a clone of its repository, and agents with short pauses."""

    vendor: Vendor
    url: str
    folder: Path
    bare: Path

    @property
    def workspace(self) -> Path:
        return self.folder / "work"

    def make(self, services: Services, **options: Any) -> CloudAgent:
        given = {
            "base_url": self.url + self.vendor.base,
            "repository": REPO,
            "poll_interval": 0.05,
            "retry_pause": 0.02,
        }
        given |= {"search_delay": 0.1, **self.vendor.options, **options}
        return self.vendor.kind(read_options(self.vendor.kind.Options, given), services)

    def run(self, job: Job, then: Callable[[object], None] = lambda _event: None, **options: Any) -> Ended:
        """Do the job in an event loop of its own, as a Segue that was started again would.

        `then` is called with everything that is seen.
        """

        async def do() -> Ended:
            items = []
            async with Processes(self.folder / "run") as processes, asyncio.timeout(DEADLINE):
                async for item in self.make(lend(processes, SECRET), **options).run(job):
                    items.append(item)
                    await asyncio.to_thread(then, item)
            return Ended(items)

        return asyncio.run(do())

    def job(self, text: str = "Write a poem", wall: float = 50.0, **more: Any) -> Job:
        prompt = execute_prompt(Task("1", text, ""), "", cloud=True)
        limits = Limits(wall=wall)
        given: dict[str, Any] = {
            "token": uuid.uuid4().hex,
            "prompt": prompt,
            "workspace": self.workspace,
            "limits": limits,
        }
        return Job(**(given | {"base": "main"} | more))

    def sim(self, what: str, body: Any) -> None:
        httpx2.post(f"{self.url}/_sim/{what}", json=body, trust_env=False).raise_for_status()

    def plays(self, **entry: Any) -> None:
        self.sim("on", [entry])

    def breaks(self, fault: str, on: str, **more: Any) -> None:
        self.sim("faults", {"faults": [{"fault": fault, "on": on, **more}]})

    def state(self) -> dict[str, int]:
        found: dict[str, int] = httpx2.get(f"{self.url}/_sim/state", trust_env=False).json()
        return found

    def asked(self, pattern: str) -> list[dict[str, Any]]:
        """The requests with this method and path."""
        method, _, path = pattern.partition(" ")
        seen = httpx2.get(f"{self.url}/_sim/log", trust_env=False).json()["requests"]
        return [one for one in seen if one["method"] == method and one["path"] == path]

    def has_branch(self, name: str) -> bool:
        return bool(git(self.bare, "for-each-ref", f"refs/heads/{name}"))


@contextmanager
def open_session_place(vendor: Vendor, folder: Path, **script: Any) -> Iterator[SessionPlace]:
    """A place whose simulator plays the script; the vendor's key is in the environment meanwhile."""
    vendor = vendor.in_repository(REPO.removeprefix("https://github.com/"))
    bare = bare_repository(folder)
    url, stop = start_server(vendor.sim.build_app(check_script(script, SessionScript), {REPO: bare}))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in vendor.env.items():
            patch.setenv(name, value)
        try:
            yield SessionPlace(vendor, url, folder, bare)
        finally:
            stop()


def in_clone(place: SessionPlace) -> Callable[[Services], CloudAgent]:
    """Makes agents whose workspace has the simulator's repository as its origin."""

    def make(services: Services) -> CloudAgent:
        subprocess.run(["git", "-C", services.repo, "remote", "add", "origin", place.bare], check=False)
        return place.make(services)

    return make
