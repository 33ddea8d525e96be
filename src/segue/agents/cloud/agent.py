"""A cloud agent, made from its profile; all its jobs share one connection to the API."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager

from msgspec import Struct

from segue import __version__
from segue.agents.cloud.launch import CloudProfile
from segue.agents.cloud.options import CloudAccess, find_origin
from segue.agents.cloud.run import CloudJob
from segue.agents.cloud.vendor import CloudOrder, make_branch, make_key
from segue.agents.cloud.watch import fail_to_start, loop_time
from segue.domain.errors import SegueError
from segue.domain.events import Event
from segue.domain.job import Job, Mode
from segue.domain.outcome import Failure, FailureKind, Outcome
from segue.domain.text import LONGEST_ANSWER
from segue.ports import Installation, Problem
from segue.prompts.cloud import mark_prompt
from segue.system.http.client import HttpClient, HttpPolicy
from segue.system.services import Services

_ATTEMPTS = 4
"""How often a request is sent before people see that the API is waited for."""


class Connection(Struct):
    """An open connection."""

    http: HttpClient
    slots: asyncio.Semaphore | None
    """The streams that may be open at once; None: no streams."""
    _loop: asyncio.AbstractEventLoop
    _stack: AsyncExitStack
    _users: int = 0


class SharedConnection:
    """Opens the connection for the first job and closes it after the last."""

    def __init__(
        self, options: CloudAccess, headers: Callable[[str], Mapping[str, str]], streams: int
    ) -> None:
        """`headers` makes headers from the key; `streams` may be open at once, 0: none."""
        self._base_url, self._headers, self._streams = options.base_url, headers, streams
        # What an agent has said comes in one response.
        self._policy = HttpPolicy(
            options.max_connections,
            streams,
            max_bytes=4 * LONGEST_ANSWER,
            pause=options.retry_pause,
            attempts=_ATTEMPTS,
        )
        self._connection: Connection | None = None

    @asynccontextmanager
    async def open(self, key: str) -> AsyncIterator[Connection]:
        """Return the connection, shared with all other jobs in this event loop."""
        shared = self._connection
        if shared is None or shared._loop is not asyncio.get_running_loop():
            shared = self._connection = await self._connect(key)
        shared._users += 1
        try:
            yield shared
        finally:
            shared._users -= 1
            if not shared._users:
                self._connection = None if self._connection is shared else self._connection
                await shared._stack.aclose()

    async def _connect(self, key: str) -> Connection:
        stack = AsyncExitStack()
        headers = {"User-Agent": f"segue/{__version__}", **self._headers(key)}
        http = await stack.enter_async_context(HttpClient(self._base_url, headers, self._policy))
        slots = asyncio.Semaphore(self._streams) if self._streams else None
        return Connection(http, slots, asyncio.get_running_loop(), stack)


class CloudAgent:
    """Has the work done by agents in the cloud."""

    def __init__(self, profile: CloudProfile, options: CloudAccess, services: Services) -> None:
        self.name, self.can = profile.name, profile.can
        self._profile, self._options, self._services = profile, options, services
        self._connection = SharedConnection(options, profile.headers, profile.streams(options))
        self.forget = services.processes.forget

    def check(self) -> list[Problem]:
        """Return what is missing: a key. The API is not asked before a launch."""
        return self._profile.check_key()

    def installation(self) -> Installation:
        """Return where the key comes from; there is no program."""
        name, key = self._profile.read_key()
        return Installation(version=self._profile.service.version, login=name if key else None)

    async def run(self, job: Job) -> AsyncGenerator[Event | Outcome, None]:
        """Launch, adopt or continue a session, watch it, and report how it ended."""
        try:
            order = await self._make_order(job)
        except (SegueError, ValueError) as error:
            yield fail_to_start(Failure(FailureKind.NOT_STARTED, str(error)), job)
            return
        if problems := self.check():
            yield fail_to_start(Failure(FailureKind.AUTH, problems[0].message), job)
            return
        async with self._connection.open(self._profile.read_key()[1]) as connection:
            api = self._profile.connect(connection.http, self._options)
            work = CloudJob(
                self._profile,
                api,
                connection.slots,
                job,
                order,
                self._options,
                self._services.processes,
                loop_time() + job.limits.wall,
            )
            async with aclosing(work.events()) as events:
                async for event in events:
                    yield event

    async def _make_order(self, job: Job) -> CloudOrder:
        if job.mode is not Mode.EDIT and not self.can.plan_mode:
            raise ValueError(f"{self.name} has no {job.mode} mode{self._profile.mode_hint}")
        repository = self._options.repository or await find_origin(job.workspace, self.name)
        key, branch = make_key(job.token), make_branch(job.token)
        labels = job.labels
        what = f"task {labels.get('task', '')[:20]}, {labels.get('phase', '')} " if labels else ""
        marked = self.can.marks_prompt
        return CloudOrder(
            token=job.token,
            key=key,
            prompt=mark_prompt(job.prompt, key) if marked else job.prompt.text,
            repository=repository,
            base=job.base or "",
            branch=branch,
            model=job.model,
            title=f"Segue {labels.get('run', '')[:8]}: {what}[{key}]",
            plan=job.mode is not Mode.EDIT,
        )
