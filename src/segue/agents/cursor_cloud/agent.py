"""The cursor-cloud agent: Cursor's Cloud Agents API, whose agents work elsewhere and push branches.

See docs/guides/cursor-cloud.md. A launch is named after its token before it is requested, so a Segue that was
killed finds it again and never pays for a second one.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Literal

from segue.agents.cloud.connection import CloudKey, SharedConnection, make_policy
from segue.agents.cloud.options import CloudAccess, find_origin
from segue.agents.cloud.work import StopNote, fail_to_start, loop_time
from segue.agents.cursor_cloud.api import CloudRequest
from segue.agents.cursor_cloud.client import CloudV1
from segue.agents.cursor_cloud.client_v0 import CloudApi, CloudV0
from segue.agents.cursor_cloud.cloud_run import CloudRun, make_headers
from segue.domain.errors import SegueError
from segue.domain.events import Event
from segue.domain.failure import Failure, FailureKind
from segue.domain.job import Job, Mode
from segue.domain.options import Count
from segue.domain.outcome import Outcome
from segue.ports import Capabilities, Installation, Problem
from segue.system.services import Services

KEY = "CURSOR_API_KEY"
_KEY = CloudKey((KEY,), "https://cursor.com/dashboard")


class CursorCloudOptions(CloudAccess, frozen=True):
    """The table `[agents.cursor-cloud]`."""

    base_url: str = "https://api.cursor.com"
    """The address of the API."""
    api_version: Literal["v1", "v0"] = "v1"
    """The version of the API; `v0` is the legacy one and can do less."""
    auto_create_pr: bool = False
    """Let Cursor open a pull request."""
    stream: bool = True
    """Stream runs as they work (v1 only)."""
    max_streams: Count = 20
    """Runs streamed at once; others are polled."""


class CursorCloudAgent:
    """Has the work done by cloud agents."""

    Options = CursorCloudOptions
    name = "cursor-cloud"

    def __init__(self, options: CursorCloudOptions, services: Services) -> None:
        current = options.api_version == "v1"
        self.can = Capabilities(
            plan_mode=current,
            follow_up=True,
            cloud=True,
            streams=current and options.stream,
            reports_usage=current,
            reports_cost=current,
            marks_prompt=not current,
        )
        self._options, self._services = options, services
        policy = make_policy(options, options.max_streams)
        streams = options.max_streams if options.stream else 0
        headers, make = partial(make_headers, options.api_version), CloudV1 if current else CloudV0
        self._connection = SharedConnection[CloudApi](options.base_url, headers, policy, streams, make)

    def check(self) -> list[Problem]:
        """Return a problem if there is no key. The API is not asked before the first launch."""
        return _KEY.check()

    def installation(self) -> Installation:
        """Return the version of the API and where its key comes from; there is no program."""
        return Installation(version=f"API {self._options.api_version}", login=KEY if _KEY.read()[1] else None)

    async def run(self, job: Job) -> AsyncGenerator[Event | Outcome, None]:
        """Launch, adopt or continue a run, watch it, and report how it ended."""
        try:
            request = await self._make_request(job)
        except (SegueError, ValueError) as error:
            failure = Failure(FailureKind.NOT_STARTED, str(error))
            yield fail_to_start(failure, job)
            return
        if problems := self.check():
            yield fail_to_start(Failure(FailureKind.AUTH, problems[0].message), job)
            return
        async with self._connection.open(_KEY.read()[1]) as connection:
            run = CloudRun(
                connection,
                job,
                request,
                self._options.poll_interval,
                self._options.retry_pause,
                StopNote(lambda: self._services.processes.scratch(job.token)),
                loop_time() + job.limits.wall,
            )
            async with aclosing(run.events()) as events:
                async for event in events:
                    yield event

    def forget(self, token: str) -> None:
        """Drop what was kept for an adoption."""
        self._services.processes.forget(token)

    async def _make_request(self, job: Job) -> CloudRequest:
        if job.mode is not Mode.EDIT and not self.can.plan_mode:
            raise ValueError(f"API v0 has no {job.mode} mode; set agents.cursor-cloud.api_version to v1")
        labels = job.labels
        title = f"Segue {labels.get('run', '')[:8]}: task {labels.get('task', '')}, {labels.get('phase', '')}"
        return CloudRequest(
            token=job.token,
            prompt=job.prompt.text,
            repository=self._options.repository or await find_origin(job.workspace, self.name),
            base=job.base or "",
            plan=job.mode is not Mode.EDIT,
            model=job.model,
            name=title if labels else "",
            auto_create_pr=self._options.auto_create_pr,
        )
