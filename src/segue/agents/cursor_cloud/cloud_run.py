"""Do one job through Cursor's API with a run of an agent."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator, Mapping
from contextlib import suppress

from msgspec import Struct

from segue.agents.cloud.connection import Connection
from segue.agents.cloud.errors import BY_US, HANG, TIMEOUT, CloudError
from segue.agents.cloud.work import LOOK_SECONDS, StopNote, do_work, loop_time, shorten
from segue.agents.cursor_cloud.api import CloudRequest, RunRef, RunSnapshot, Status
from segue.agents.cursor_cloud.client_v0 import CloudApi
from segue.agents.cursor_cloud.errors import CURSOR, judge_end
from segue.agents.cursor_cloud.reading import StreamReader
from segue.agents.cursor_cloud.watch import Pace, RunStarter, RunWatch, StartedRun
from segue.agents.local.launch import count_usage
from segue.domain.events import AgentStarted, AgentUsage, Event
from segue.domain.failure import Failure, FailureKind
from segue.domain.job import Job, Mode
from segue.domain.outcome import Outcome
from segue.domain.repository import same_repository


def make_headers(version: str, key: str) -> Mapping[str, str]:
    """Return the headers that contain the key."""
    # v1 takes both schemes; v0 documents only the older one.
    basic = "Basic " + base64.b64encode(f"{key}:".encode()).decode()
    return {"Authorization": f"Bearer {key}" if version == "v1" else basic}


_NO_TEXT = {Mode.PLAN: "plan", Mode.ASK: "answer"}
_CANCEL_SECONDS = 5.0
_CANCEL_TRIES = 3
_USAGE_SECONDS = 15.0
_USAGE_TRIES = 3


class CloudRun(Struct, frozen=True):
    """One job of Cursor's cloud agents."""

    connection: Connection[CloudApi]
    job: Job
    request: CloudRequest
    poll: float
    pause: float
    note: StopNote
    deadline: float

    def events(self) -> AsyncGenerator[Event | Outcome, None]:
        """Yield everything that is seen; the last item is the outcome."""
        return do_work(self, self.job, CURSOR, self.deadline)

    @property
    def _starter(self) -> RunStarter:
        return RunStarter(self.connection.api, self.request, self.deadline, self.pause, self.poll)

    async def start(self) -> StartedRun:
        """Launch an agent, continue one, or find what an earlier attempt has launched."""
        return await self._starter.start(self.job.session)

    def may_start_again(self, error: CloudError) -> bool:
        """Return whether a second agent would have the same id, or the first was certainly not launched."""
        return self.connection.api.mints_ids or not error.unsure

    def announce(self, started: StartedRun) -> AgentStarted:
        """Return the event for a run."""
        ref = started.ref
        return AgentStarted("cursor-cloud", ref.agent, ref.run, ref.url, started.adopted)

    async def watch(self, started: StartedRun) -> RunWatch:
        """Return the watch over a run; it may have worked for a while already."""
        limits, deadline = self.job.limits, self.deadline
        if started.adopted:
            deadline = shorten(deadline, await self._read_age(started.ref))
        pace = Pace(deadline, limits.idle, self.poll, self.pause, limits.patience)
        reader = StreamReader(limits.kept_bytes)
        return RunWatch(self.connection.api, started.ref, reader, pace, self.connection.slots)

    async def _read_age(self, ref: RunRef) -> float | None:
        try:
            return (await self.connection.api.get(ref, self.deadline)).age
        except CloudError:
            return None

    async def finish(self, started: StartedRun, watch: RunWatch) -> Failure | None:
        """Return why the run failed, if it did; one whose time is up is cancelled."""
        failure = watch.failure
        if failure in (TIMEOUT, HANG):
            accepted = await self._cancel(started.ref, "timeout" if failure is TIMEOUT else "hang")
            await watch.poll_again(loop_time() + LOOK_SECONDS)
            return failure if accepted else self._failure(watch, failure)
        return failure or self._failure(watch, None)

    async def conclude(
        self, started: StartedRun, watch: RunWatch, failure: Failure | None
    ) -> tuple[Outcome, AgentUsage | None]:
        """Return the outcome, and what the run has used."""
        used = await self._read_usage(started.ref) if watch.failure in (None, TIMEOUT, HANG) else None
        snapshot, reader = watch.snapshot, watch.reader
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
        outcome = Outcome(
            text=text,
            failure=failure,
            session=str(ref),
            model=self.job.model,
            usage=count_usage(used) if used else None,
            duration=last.duration or 0.0,
            branches=branches,
            facts=facts,
        )
        return outcome, used

    def _failure(self, watch: RunWatch, otherwise: Failure | None) -> Failure | None:
        """Return what the run's own end says; `otherwise` if it has not ended."""
        snapshot = watch.snapshot
        if snapshot is None or not snapshot.status.is_terminal:
            return otherwise
        if snapshot.status is Status.SUCCEEDED and self.connection.api.reports_cancelled:
            return None
        word = self.note.read()
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

    async def abandon(self, started: StartedRun | None) -> None:
        """Cancel the run, if there is one: nobody waits for the job any more."""
        with suppress(CloudError, TimeoutError):
            async with asyncio.timeout(_CANCEL_SECONDS):
                end = loop_time() + _CANCEL_SECONDS
                ref = started.ref if started else await self._starter.find(self.job.session, end)
                if ref is not None:
                    await self._cancel(ref, "interrupted")

    async def _cancel(self, ref: RunRef, why: str) -> bool:
        """Cancel the run; return False if the API did not, or if the run had already ended."""
        self.note.write(why)
        end = loop_time() + _CANCEL_SECONDS
        for left in reversed(range(_CANCEL_TRIES)):
            try:
                return await self.connection.api.cancel(ref, end)
            except CloudError as error:
                if error.status < 500 or not left or loop_time() + self.pause > end:
                    return False
            await asyncio.sleep(self.pause)
        return False
