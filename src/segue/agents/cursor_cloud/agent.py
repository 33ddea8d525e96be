"""The cursor-cloud agent: Cursor's Cloud Agents API, whose agents work elsewhere and push branches.

See docs/cursor-cloud.md. A launch is named by its token before it is asked for, so a Segue that was killed
finds it again and never pays for a second one.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from segue.agents.cursor_cloud.api import Order
from segue.agents.cursor_cloud.cloud_run import Flight
from segue.agents.cursor_cloud.connection import Lines, Terms
from segue.agents.cursor_cloud.ending import failed_event
from segue.domain.errors import CredentialsError, SegueError
from segue.domain.event import Event
from segue.domain.failure import Failure, FailureKind
from segue.domain.job import Job, Mode
from segue.domain.repository import canonical
from segue.ports import Capabilities, Installation, Problem
from segue.system.git.repository import Repository
from segue.system.http.client import LOOPBACK, HttpPolicy
from segue.system.process.processes import Processes
from segue.system.redact import Redactor

KEY = "CURSOR_API_KEY"


def _address(url: str) -> str:
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise ValueError(f"must not hold a user or password; the key comes from {KEY}")
    if not parts.hostname:
        raise ValueError("must name a server")
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
        raise ValueError("must begin with https:// (or http:// on this machine): the key travels with it")
    return url.rstrip("/")


class CursorCloudOptions(BaseModel):
    """The table `[agents.cursor-cloud]`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base_url: Annotated[str, AfterValidator(_address)] = Field(
        default="https://api.cursor.com", description="Where the API is."
    )
    api_version: Literal["v1", "v0"] = Field(
        default="v1", description="The generation of the API; `v0` is the legacy one and can do less."
    )
    repository: Annotated[str, AfterValidator(canonical)] | None = Field(
        default=None,
        description="The hosted repository to work in; the remote `origin` of the workspace if unset.",
    )
    auto_create_pr: bool = Field(default=False, description="Let Cursor open a pull request.")
    poll_interval: float = Field(
        default=15.0, gt=0, description="Seconds between looks at a run that cannot be streamed."
    )
    stream: bool = Field(default=True, description="Follow runs as they work (v1 only).")
    max_streams: int = Field(default=20, ge=1, description="Runs streamed at once; others are looked at.")
    max_connections: int = Field(default=20, ge=1, description="Requests under way at once, beside streams.")
    retry_pause: float = Field(
        default=1.0, gt=0, description="Seconds before the first retry of a request; doubled each time."
    )


class CursorCloudAgent:
    """Has the work done by cloud agents."""

    Options = CursorCloudOptions
    name = "cursor-cloud"

    def __init__(self, options: CursorCloudOptions, processes: Processes, redactor: Redactor) -> None:
        current = options.api_version == "v1"
        self.can = Capabilities(
            plan_mode=current,
            follow_up=True,
            cloud=True,
            streams=current and options.stream,
            reports_usage=current,
            reports_cost=current,
        )
        self._options = options
        self._processes = processes
        self._redactor = redactor
        policy = HttpPolicy(options.max_connections, options.max_streams, pause=options.retry_pause)
        streams = options.max_streams if options.stream else 0
        self._lines = Lines(Terms(options.base_url, options.api_version, streams, policy))

    def check(self) -> list[Problem]:
        """Whether there is a key. Nothing is asked of the API: that is left to the first launch."""
        key = _key()
        if key and key.isascii() and key.isprintable() and " " not in key:
            return []
        fix = f"Make a key at https://cursor.com/dashboard and set {KEY}."
        what = f"{KEY} holds characters that no key has." if key else f"{KEY} is not set."
        return [Problem(what, fix, CredentialsError.exit_code)]

    def installation(self) -> Installation:
        """The API that is used and where its key comes from; there is no program."""
        return Installation(version=f"API {self._options.api_version}", login=KEY if _key() else None)

    async def run(self, job: Job) -> AsyncGenerator[Event, None]:
        """Launch, adopt or follow up, watch, and say how it ended."""
        try:
            order = await self._order(job)
        except (SegueError, ValueError) as error:
            failure = Failure(FailureKind.NOT_STARTED, str(error))
            yield failed_event(failure, job, 0.0, self._redactor)
            return
        if problems := self.check():
            yield failed_event(Failure(FailureKind.AUTH, problems[0].message), job, 0.0, self._redactor)
            return
        async with self._lines.open(_key()) as line:
            flight = Flight(
                line,
                job,
                order,
                self._redactor,
                self._options.poll_interval,
                self._options.retry_pause,
                lambda: self._processes.scratch(job.token),
            )
            async with aclosing(flight.events()) as events:
                async for event in events:
                    yield event

    def forget(self, token: str) -> None:
        """Drop what was kept for an adoption."""
        self._processes.forget(token)

    async def _order(self, job: Job) -> Order:
        if job.mode is not Mode.EDIT and not self.can.plan_mode:
            raise ValueError(f"API v0 has no {job.mode} mode; set agents.cursor-cloud.api_version to v1")
        labels = job.labels
        title = f"Segue {labels.get('run', '')[:8]}: task {labels.get('task', '')}, {labels.get('phase', '')}"
        return Order(
            token=job.token,
            prompt=job.prompt.text,
            repository=self._options.repository or await _origin(job.workspace),
            ref=job.base or "",
            plan=job.mode is not Mode.EDIT,
            model=job.model,
            name=title if labels else "",
            auto_create_pr=self._options.auto_create_pr,
        )


async def _origin(workspace: Path) -> str:
    """The hosted repository that the workspace is a clone of."""
    url = await (await Repository.open(workspace)).remote_url("origin")
    hint = "set agents.cursor-cloud.repository to the repository's address"
    if url is None:
        raise ValueError(f"the workspace has no remote called origin; {hint}")
    try:
        return canonical(url)
    except ValueError as error:
        raise ValueError(f"the remote origin: {error}; {hint}") from None


def _key() -> str:
    return os.environ.get(KEY, "").strip()
