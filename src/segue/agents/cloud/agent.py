"""A cloud agent of any vendor, made from its profile."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from msgspec import Struct

from segue.agents.cloud.connection import CloudKey, SharedConnection
from segue.agents.cloud.options import CloudAccess, find_origin
from segue.agents.cloud.profile import CloudProfile
from segue.agents.cloud.run import CloudJob
from segue.agents.cloud.values import CloudOrder, CloudSession, make_branch, make_key
from segue.agents.cloud.work import fail_to_start, loop_time
from segue.domain.errors import SegueError
from segue.domain.events import Event
from segue.domain.job import Job, Mode
from segue.domain.outcome import Failure, FailureKind, Outcome
from segue.ports import Installation, Problem
from segue.prompts.cloud import mark_prompt, push_again_note, push_note
from segue.system.services import Services


class CloudAgent:
    """Has the work done by one vendor's agents."""

    def __init__(self, profile: CloudProfile, options: CloudAccess, services: Services) -> None:
        self.name, self.can = profile.name, profile.can
        self._profile, self._options, self._services = profile, options, services
        self._key = CloudKey(profile.keys, profile.where)
        self._connection = SharedConnection(options, profile.headers, profile.streams(options))
        self.forget = services.processes.forget

    def check(self) -> list[Problem]:
        """Return what is missing: a key, or an option. The API is not asked before a launch."""
        return [*self._key.check(), *self._profile.check(self._options)]

    def installation(self) -> Installation:
        """Return where the key comes from; there is no program."""
        name, key = self._key.read()
        return Installation(version=self._profile.service.version, login=name if key else None)

    async def run(self, job: Job) -> AsyncGenerator[Event | Outcome, None]:
        """Launch, adopt or continue a session, watch it, and report how it ended."""
        try:
            order = await self._make_order(job)
        except (SegueError, ValueError) as error:
            yield fail_to_start(Failure(FailureKind.NOT_STARTED, str(error)), job)
            return
        if problems := self.check():
            kind = FailureKind.AUTH if self._key.check() else FailureKind.NOT_STARTED
            yield fail_to_start(Failure(kind, problems[0].message), job)
            return
        async with self._connection.open(self._key.read()[1]) as connection:
            api = self._profile.connect(connection.http, self._options)
            work = CloudJob(
                *(self._profile, api, connection.slots, job, order, self._options),
                *(self._services.processes, loop_time() + job.limits.wall),
            )
            async with aclosing(work.events()) as events:
                async for event in events:
                    yield event

    async def _make_order(self, job: Job) -> CloudOrder:
        if job.mode is not Mode.EDIT and not self.can.plan_mode:
            raise ValueError(f"{self.name} has no {job.mode} mode{self._profile.mode_hint}")
        if job.model and not self._profile.takes_model:
            raise ValueError(f"{self.name} takes no model: {self._profile.service.maker} chooses it")
        repository = self._options.repository or await find_origin(job.workspace, self.name)
        key, branch = make_key(job.token), make_branch(job.token)
        note = ""
        if self._profile.pushes and job.session:
            note = push_again_note(CloudSession.parse(job.session).branch or branch)
        elif self._profile.pushes:
            note = push_note(repository, job.base or "", branch)
        labels = job.labels
        what = f"task {labels.get('task', '')[:20]}, {labels.get('phase', '')} " if labels else ""
        marked = self.can.marks_prompt
        return CloudOrder(
            token=job.token,
            key=key,
            prompt=mark_prompt(job.prompt, note, key) if marked else job.prompt.text,
            repository=repository,
            base=job.base or "",
            branch=branch,
            model=job.model,
            title=f"Segue {labels.get('run', '')[:8]}: {what}[{key}]",
            plan=job.mode is not Mode.EDIT,
        )


class CloudKind(Struct, frozen=True):
    """Takes the place of an agent's class: makes a CloudAgent with a profile."""

    profile: CloudProfile

    @property
    def Options(self) -> type[CloudAccess]:  # noqa: N802 - the name by which every variant has its options
        """The type of its options."""
        return self.profile.options

    def __call__(self, options: CloudAccess, services: Services) -> CloudAgent:
        """Make the agent."""
        return CloudAgent(self.profile, options, services)
