"""The cursor-cloud agent: Cursor's Cloud Agents API, whose agents work elsewhere and push branches.

See `docs/guides/cursor-cloud.md`. A launch is named after its token before it is requested, so a Segue that
was killed finds it again and never pays for a second one.
"""

from __future__ import annotations

import base64
import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from msgspec import structs

from segue import __version__
from segue.agents.cursor_cloud.api import CloudOrder
from segue.agents.cursor_cloud.job import CloudJob, fail_to_start
from segue.agents.cursor_cloud.v0 import CloudV0
from segue.agents.cursor_cloud.v1 import CloudV1
from segue.domain.errors import CredentialsError, SegueError
from segue.domain.events import Event
from segue.domain.job import Job, Mode
from segue.domain.options import OptionError, Options, Seconds
from segue.domain.outcome import Failure, FailureKind, Outcome
from segue.domain.text import LONGEST_ANSWER
from segue.ports import Capabilities, Installation, Problem
from segue.prompts.cloud import make_mark, mark_prompt
from segue.system.git.address import canonical_address
from segue.system.git.repository import Repository
from segue.system.http.client import LOOPBACK, HttpClient, HttpPolicy
from segue.system.services import Services

KEY = "CURSOR_API_KEY"


class CursorCloudOptions(Options, frozen=True):
    """The table `[agents.cursor-cloud]`."""

    base_url: str = "https://api.cursor.com"
    """The address of the API."""
    api_version: Literal["v1", "v0"] = "v1"
    """The version of the API; `v0` is the legacy one and can do less."""
    repository: str | None = None
    """The hosted repository to work in; the remote `origin` of the workspace if unset."""
    auto_create_pr: bool = False
    """Let Cursor open a pull request."""
    poll_interval: Seconds = 15.0
    """Seconds between two looks at an agent."""

    def __post_init__(self) -> None:
        _check_address(self.base_url)
        structs.force_setattr(self, "base_url", self.base_url.rstrip("/"))
        if self.repository is not None:
            try:
                structs.force_setattr(self, "repository", canonical_address(self.repository))
            except ValueError as error:
                raise OptionError("repository", str(error)) from None


def _check_address(url: str) -> None:
    """Raise OptionError for an address that a key must not be sent to."""
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise OptionError(
            "base_url", "must not contain a user or password; the key comes from the environment"
        )
    if not parts.hostname:
        raise OptionError("base_url", "must name a server")
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
        message = "must begin with https:// (or http:// on this machine): the key is sent there"
        raise OptionError("base_url", message)


class CursorCloudAgent:
    """Has the work done by Cursor's cloud agents; what it can do depends on the version of the API."""

    Options = CursorCloudOptions
    name = "cursor-cloud"

    def __init__(self, options: CursorCloudOptions, services: Services) -> None:
        self._options, self._services = options, services
        self._is_current = current = options.api_version == "v1"
        self.can = Capabilities(
            plan_mode=current,
            follow_up=True,
            cloud=True,
            reports_usage=current,
            reports_cost=current,
            marks_prompt=not current,
        )
        self.forget = services.processes.forget

    def check(self) -> list[Problem]:
        """Return what is missing: a key. The API is not asked before a launch."""
        key = _read_key()
        if key and key.isascii() and key.isprintable() and " " not in key:
            return []
        what = f"{KEY} has characters that no key has." if key else f"{KEY} is not set."
        fix = f"Create a key at https://cursor.com/dashboard and set {KEY}."
        return [Problem(what, fix, CredentialsError.exit_code)]

    def installation(self) -> Installation:
        """Return where the key comes from; there is no program."""
        return Installation(version=f"API {self._options.api_version}", login=KEY if _read_key() else None)

    async def run(self, job: Job) -> AsyncGenerator[Event | Outcome, None]:
        """Launch, adopt or continue an agent, watch it, and report how it ended."""
        try:
            order = await self._make_order(job)
        except (SegueError, ValueError) as error:
            yield fail_to_start(Failure(FailureKind.NOT_STARTED, str(error)), job)
            return
        if problems := self.check():
            yield fail_to_start(Failure(FailureKind.AUTH, problems[0].message), job)
            return
        options = self._options
        # What an agent has said comes in one response.
        policy = HttpPolicy(max_bytes=4 * LONGEST_ANSWER, pause=min(1.0, options.poll_interval), attempts=4)
        headers = {"User-Agent": f"segue/{__version__}", "Authorization": self._authorize(_read_key())}
        async with HttpClient(options.base_url, headers, policy) as http:
            api = CloudV1(http) if self._is_current else CloudV0(http)
            work = CloudJob(
                api, job, order, options.poll_interval, lambda: self._services.processes.scratch(job.token)
            )
            async with aclosing(work.events()) as events:
                async for event in events:
                    yield event

    def _authorize(self, key: str) -> str:
        """Return the header for the key; v0 documents only this scheme."""
        return (
            f"Bearer {key}" if self._is_current else "Basic " + base64.b64encode(f"{key}:".encode()).decode()
        )

    async def _make_order(self, job: Job) -> CloudOrder:
        if job.mode is not Mode.EDIT and not self.can.plan_mode:
            hint = "set agents.cursor-cloud.api_version to v1"
            raise ValueError(f"cursor-cloud has no {job.mode} mode in API v0; {hint}")
        labels, key = job.labels, f"segue-{job.token[:24]}"
        what = f"task {labels.get('task', '')[:20]}, {labels.get('phase', '')} " if labels else ""
        return CloudOrder(
            token=job.token,
            prompt=mark_prompt(job.prompt, key) if self.can.marks_prompt else job.prompt.text,
            mark=make_mark(key),
            repository=self._options.repository or await _find_origin(job.workspace),
            base=job.base or "",
            model=job.model,
            title=f"Segue {labels.get('run', '')[:8]}: {what}[{key}]",
            plan=job.mode is not Mode.EDIT,
            auto_create_pr=self._options.auto_create_pr,
        )


def _read_key() -> str:
    return os.environ.get(KEY, "").strip()


async def _find_origin(workspace: Path) -> str:
    """Return the hosted repository that the workspace is a clone of; raises ValueError."""
    url = await (await Repository.open(workspace)).remote_url("origin")
    hint = "set agents.cursor-cloud.repository to the repository's address"
    if url is None:
        raise ValueError(f"the workspace has no remote called origin; {hint}")
    try:
        return canonical_address(url)
    except ValueError as error:
        raise ValueError(f"the remote origin: {error}; {hint}") from None
