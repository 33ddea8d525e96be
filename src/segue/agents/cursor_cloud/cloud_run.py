"""Do one job through the API: start a run, watch it, report its end; cancel it if nobody waits any more."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing, suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from segue.agents.cloud.connection import Connection
from segue.agents.cloud.errors import BY_US, HANG, TIMEOUT, CloudError
from segue.agents.cursor_cloud.api import CloudRequest, RunRef, RunSnapshot, Status
from segue.agents.cursor_cloud.client_v0 import CloudApi
from segue.agents.cursor_cloud.errors import CURSOR, judge_end, judge_refusal
from segue.agents.cursor_cloud.reading import StreamReader
from segue.agents.cursor_cloud.watch import Pace, RunStarter, RunWatch, StartedRun, loop_time
from segue.agents.local.launch import count_usage
from segue.domain.errors import ServiceAway
from segue.domain.events import AgentStarted, AgentUsage, Event
from segue.domain.failure import Failure, FailureKind
from segue.domain.job import Job, Mode
from segue.domain.outcome import Outcome
from segue.domain.patience import Wait
from segue.domain.repository import same_repository


def make_headers(version: str, key: str) -> Mapping[str, str]:
    """Return the headers that contain the key."""
    # v1 takes both schemes; v0 documents only the older one.
    basic = "Basic " + base64.b64encode(f"{key}:".encode()).decode()
    return {"Authorization": f"Bearer {key}" if version == "v1" else basic}


_NO_TEXT = {Mode.PLAN: "plan", Mode.ASK: "answer"}


def fail_without_run(failure: Failure, job: Job, duration: float) -> Outcome:
    """Return the outcome of a job that has no run."""
    return Outcome(
        failure=failure,
        session=job.session,
        model=job.model,
        duration=duration,
        facts={"adopted": False},
    )


_CANCEL_SECONDS = 5.0
_CANCEL_TRIES = 3
_USAGE_SECONDS = 15.0
_USAGE_TRIES = 3
_LOOK_SECONDS = 5.0
_NOTE = "cancelled"


class CloudRun(Struct, frozen=True):
    """One job in the cloud."""

    connection: Connection[CloudApi]
    job: Job
    request: CloudRequest
    poll: float
    pause: float
    scratch: Callable[[], Path]
    """Returns the folder where a note is kept until the outcome is stored."""

    async def events(self) -> AsyncGenerator[Event | Outcome, None]:
        """Yield everything that is seen; the last item is the outcome."""
        began = time.monotonic()
        deadline = loop_time() + self.job.limits.wall
        starter = RunStarter(self.connection.api, self.request, deadline, self.pause, self.poll)
        reader = StreamReader(self.job.limits.kept_bytes)
        started: StartedRun | None = None
        used: AgentUsage | None = None
        over = False
        try:
            async for item in self._start(starter):
                if isinstance(item, StartedRun):
                    started = item
                else:
                    yield item
            assert started is not None
            ref = started.ref
            yield AgentStarted("cursor-cloud", ref.agent, ref.run, ref.url, started.adopted)
            watch = await self._make_watch(started, reader, deadline)
            async with aclosing(watch.events()) as seen:
                async for event in seen:
                    yield event
            failure, used = await self._finish(started.ref, watch)
            over = True
            outcome = self._outcome(started, watch.snapshot, reader, failure, used)
            outcome = replace(outcome, duration=outcome.duration or time.monotonic() - began)
        except ServiceAway:
            over = True  # the agent may be at work: `resume` finds it again by its token
            raise
        except CloudError as error:
            over = not error.unsure
            refusal = judge_refusal(error, late=loop_time() >= deadline)
            outcome = fail_without_run(refusal, self.job, time.monotonic() - began)
        finally:
            if not over:
                await self._abandon(started, starter)
        if used is not None:
            yield used
        yield outcome

    async def _start(self, starter: RunStarter) -> AsyncGenerator[Event | StartedRun, None]:
        """Yield the run at last; while the service is away, wait for it and try again.

        Trying again never starts a second agent: it has the same id, or is looked for before.
        """
        wait: Wait | None = None
        while True:
            try:
                started = await starter.start(self.job.session)
            except CloudError as error:
                safe = self.connection.api.mints_ids or not error.unsure
                if not error.away or not safe or not self.job.limits.patience:
                    raise
                new, wait = wait is None, wait or Wait(CURSOR.name, error.message, self.job.limits.patience)
                pause = wait.pause(error.message)
                if new:
                    yield wait.began
                await asyncio.sleep(pause)
            else:
                if wait is not None:
                    yield wait.ended
                yield started
                return

    async def _make_watch(self, started: StartedRun, reader: StreamReader, deadline: float) -> RunWatch:
        limits = self.job.limits
        if started.adopted:
            # It has worked for a while already; but one look must be possible, however old it is.
            deadline = max(
                deadline - await self._read_age(started.ref, deadline), loop_time() + _LOOK_SECONDS
            )
        pace = Pace(deadline, limits.idle, self.poll, self.pause, limits.patience)
        return RunWatch(self.connection.api, started.ref, reader, pace, self.connection.slots)

    async def _read_age(self, ref: RunRef, deadline: float) -> float:
        try:
            return (await self.connection.api.get(ref, deadline)).age or 0.0
        except CloudError:
            return 0.0

    async def _finish(self, ref: RunRef, watch: RunWatch) -> tuple[Failure | None, AgentUsage | None]:
        """Return why the run failed, if it did, and what it has used; one whose time is up is cancelled."""
        failure, used = watch.failure, None
        if failure in (TIMEOUT, HANG):
            accepted = await self._cancel(ref, "timeout" if failure is TIMEOUT else "hang")
            await watch.poll_again(loop_time() + _LOOK_SECONDS)
            failure = failure if accepted else self._failure(watch, failure)
        elif failure is None:
            failure = self._failure(watch, None)
        if watch.failure in (None, TIMEOUT, HANG):
            used = await self._read_usage(ref)
        return failure, used

    def _outcome(
        self,
        started: StartedRun,
        snapshot: RunSnapshot | None,
        reader: StreamReader,
        failure: Failure | None,
        used: AgentUsage | None,
    ) -> Outcome:
        last, ref, mode = snapshot or RunSnapshot(Status.UNKNOWN, ""), started.ref, self.job.mode
        plan = reader.plan if mode is Mode.PLAN else ""
        text = plan or last.text or reader.text
        if failure is None and reader.lost and not (plan if mode is Mode.PLAN else last.text):
            what = "an event of the cloud agent's stream was too large to be read"
            failure = Failure(FailureKind.OUTPUT_LIMIT, what)
        if failure is None and mode in _NO_TEXT and not text.strip():
            failure = Failure(
                FailureKind.NO_RESULT, f"the cloud agent ended well but gave no {_NO_TEXT[mode]}"
            )
        # The agent may have pushed nothing, several branches, or elsewhere.
        ours = (b.name for b in last.branches if same_repository(b.repository, self.request.repository))
        branches = tuple(dict.fromkeys(filter(None, ours)))
        facts = {
            "agent_id": ref.agent,
            "run_id": ref.run,
            "url": ref.url,
            "status": last.word or None,
            "branches": list(branches),
            "pull_requests": sorted({b.pr for b in last.branches if b.pr}),
            "adopted": started.adopted,
            **reader.facts(),
        }
        return Outcome(
            text=text,
            failure=failure,
            session=str(ref),
            model=self.job.model,
            usage=count_usage(used) if used else None,
            duration=last.duration or 0.0,
            branches=branches,
            facts=facts,
        )

    def _failure(self, watch: RunWatch, otherwise: Failure | None) -> Failure | None:
        """Return what the run's own end says; `otherwise` if it has not ended."""
        snapshot = watch.snapshot
        if snapshot is None or not snapshot.status.is_terminal:
            return otherwise
        if snapshot.status is Status.SUCCEEDED and self.connection.api.reports_cancelled:
            return None
        word = self._read_note()
        return BY_US[word] if word and snapshot.status is Status.SUCCEEDED else judge_end(snapshot, word)

    async def _read_usage(self, ref: RunRef) -> AgentUsage | None:
        """Return what the run has used; counting that may take the API a moment."""
        end = loop_time() + _USAGE_SECONDS
        used: AgentUsage | None = None
        with suppress(CloudError):
            for left in reversed(range(_USAGE_TRIES)):
                used = await self.connection.api.usage(ref, end)
                if used is None or used.input_tokens or used.output_tokens or used.cost_usd or not left:
                    break
                await asyncio.sleep(self.pause)
        return used

    async def _abandon(self, started: StartedRun | None, starter: RunStarter) -> None:
        """Cancel what was started, as far as that is possible at once: nobody waits for the job any more."""
        with suppress(CloudError, TimeoutError):
            async with asyncio.timeout(_CANCEL_SECONDS):
                end = loop_time() + _CANCEL_SECONDS
                ref = started.ref if started else await starter.find(self.job.session, end)
                if ref is not None:
                    await self._cancel(ref, "interrupted")

    async def _cancel(self, ref: RunRef, why: str) -> bool:
        """Cancel the run; return False if the API did not, or if the run had already ended."""
        (self.scratch() / _NOTE).write_text(why, encoding="ascii")
        end = loop_time() + _CANCEL_SECONDS
        for left in reversed(range(_CANCEL_TRIES)):
            try:
                return await self.connection.api.cancel(ref, end)
            except CloudError as error:
                if error.status < 500 or not left or loop_time() + self.pause > end:
                    return False
            await asyncio.sleep(self.pause)
        return False

    def _read_note(self) -> str:
        """Return why we have cancelled the run, now or before we were killed; empty if we have not."""
        try:
            word = (self.scratch() / _NOTE).read_text(encoding="ascii")
        except OSError:
            return ""
        return word if word in BY_US else ""
