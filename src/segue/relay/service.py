"""Where calls arrive: each one is checked, written down, confirmed, run once, and its result kept."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from segue.domain.errors import SegueError
from segue.domain.job import Limits
from segue.domain.plain import plain
from segue.relay.arguments import WrongParameter, checked, command
from segue.relay.audit import Audit
from segue.relay.calls import Calls, Record, record_name, request_hash, unknown_outcome
from segue.relay.confirm import Ask
from segue.relay.execute import execute, job_of
from segue.relay.options import ActionSettings, RelaySettings
from segue.relay.rate import Rate
from segue.system.process.folder import RunFolder
from segue.system.process.processes import Command, Processes
from segue.system.redact import Redactor

Gone = Callable[[], Awaitable[object]]
"""Returns when the caller has hung up."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a caller is answered."""

    status: int
    body: dict[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)


class Refusal(Exception):
    """A call that is not carried out."""

    def __init__(self, status: int, code: str, error: str, wait: float = 0.0) -> None:
        super().__init__(error)
        headers = {"retry-after": str(math.ceil(wait))} if wait else {}
        self.reply = Reply(status, {"error": error, "code": code}, headers)


@dataclass(frozen=True, slots=True)
class Call:
    """What somebody asks for."""

    action: str
    parameters: Mapping[str, Any]
    key: str | None = None
    caller: str = ""


@dataclass(frozen=True, slots=True)
class Work:
    """A call that may be run."""

    record: Record
    action: ActionSettings
    argv: list[str]
    values: dict[str, str]
    caller: str


class Desk:
    """Carries out calls. Make one per relay, and call `settle` at its end."""

    def __init__(
        self,
        settings: RelaySettings,
        folder: Path,
        processes: Processes,
        audit: Audit,
        redactor: Redactor,
        ask: Mapping[str, Ask],
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._processes = processes
        self._audit = audit
        self._redactor = redactor
        self._ask = ask
        self._calls = Calls(folder / "calls", settings.keep_days)
        self._rate = Rate(settings.rate)
        self._busy: Counter[str] = Counter()
        self._running: dict[str, tuple[Record, asyncio.Task[Reply]]] = {}

    def recover(self) -> None:
        """Take up what an earlier relay left: adopt what still runs, and admit what nobody saw."""
        for record in self._calls.unfinished():
            if record.state == "asking":
                self._calls.forget(record.name)
            elif RunFolder(self._folder.resolve()).job(record.token).claim() is None:
                self._finish(record, *unknown_outcome())
            else:
                self._start(record, self._adopted(record))

    async def settle(self) -> None:
        """Wait until the results of everything that was ended are written down."""
        if self._running:
            await asyncio.wait([task for _, task in self._running.values()], timeout=10)

    def actions(self) -> list[dict[str, Any]]:
        """What may be asked for; not how it is done."""
        return [
            {
                "name": name,
                "description": action.description,
                "parameters": action.parameters,
                "confirm": action.confirm,
                "timeout": action.timeout,
                "concurrency": action.concurrency,
                "running": self._busy[name],
            }
            for name, action in self._settings.actions.items()
        ]

    async def run(self, call: Call, gone: Gone) -> Reply:
        """Carry out a call, or say why not."""
        try:
            return await self._run(call, gone)
        except Refusal as refusal:
            facts = {"action": call.action[:64], "key": bool(call.key), "caller": call.caller}
            self._note("refused", status=refusal.reply.status, error=str(refusal), **facts)
            return refusal.reply

    async def _run(self, call: Call, gone: Gone) -> Reply:
        if wait := self._rate.wait():
            raise Refusal(429, "rate", f"more than {self._settings.rate} calls a minute", wait)
        work = self._checked(call)
        running, task = self._running.get(work.record.name, (None, None))
        known = running or self._calls.find(work.record.name)
        if known is not None and known.request not in (work.record.request, ""):
            raise Refusal(422, "key_reused", "this Idempotency-Key belongs to another request")
        if known is not None and task is None:
            return self._replayed(known, call)
        if task is None:
            task = self._start(work.record, self._carried_out(work))
            if work.action.end_with_client:
                return await _unless_gone(task, gone)
        # Whoever hangs up must not take the action with him.
        return await asyncio.shield(task)

    def _checked(self, call: Call) -> Work:
        action = self._settings.actions.get(call.action)
        if action is None:
            raise Refusal(404, "unknown_action", "there is no such action")
        try:
            values = checked(action, call.parameters)
            argv = command(action, values)
        except WrongParameter as error:
            raise Refusal(400, "parameter", str(error)) from None
        token = uuid.uuid4().hex
        request = request_hash(call.action, values)
        name = record_name(call.key, token)
        record = Record(name, token, call.action, request, "asking", round(time.time(), 3))
        return Work(record, action, argv, values, call.caller)

    def _replayed(self, known: Record, call: Call) -> Reply:
        status, body = (known.status, known.body or {}) if known.state == "ended" else unknown_outcome()
        self._note("replayed", id=known.token, action=known.action, status=status, caller=call.caller)
        return Reply(status, body, {"idempotent-replayed": "true"})

    def _start(self, record: Record, work: Coroutine[Any, Any, Reply]) -> asyncio.Task[Reply]:
        """Run it as a task of its own, one of the few that the action allows at once."""
        action = self._settings.actions.get(record.action)
        if (
            action is not None
            and self._busy[record.action] >= action.concurrency
            and record.state == "asking"
        ):
            work.close()
            raise Refusal(409, "busy", f"{record.action} is running already", 1)
        self._busy[record.action] += 1
        task = asyncio.create_task(work)
        self._running[record.name] = record, task

        def over(_task: asyncio.Task[Reply]) -> None:
            self._busy[record.action] -= 1
            self._running.pop(record.name, None)

        task.add_done_callback(over)
        return task

    async def _carried_out(self, work: Work) -> Reply:
        """From the first note to the kept result."""
        record, action = work.record, work.action
        try:
            if action.confirm != "none":
                self._calls.write(record)
                if not await self._confirmed(work):
                    return self._finish(
                        record, 403, {"error": "the user did not allow it", "code": "refused"}
                    )
            record = replace(record, state="started")
            # Before it begins: what is not in the log is not run, and what may have run is not run again.
            self._audit.write(
                "started", id=record.token, action=record.action, parameters=work.values, caller=work.caller
            )
            self._calls.write(record)
        except (OSError, SegueError):
            self._calls.forget(record.name)
            error = "the relay cannot write its log; nothing was run"
            return Reply(503, {"error": error, "code": "log"})
        return await self._executed(record, job_of(action, work.argv))

    async def _confirmed(self, work: Work) -> bool:
        shown = json.dumps(work.values, ensure_ascii=False) if work.values else ""
        question = plain(f"Run {work.record.action} {shown}".strip() + f"  ({' '.join(work.argv)})?", 500)
        said = await self._ask[work.action.confirm](question)
        self._audit.write(
            "confirmed" if said else "declined", id=work.record.token, action=work.record.action
        )
        return said

    async def _adopted(self, record: Record) -> Reply:
        """Follow a job that an earlier relay started; only its supervisor knows the command."""
        action = self._settings.actions.get(record.action)
        kept = action.output_bytes if action else 64 * 1024
        return await self._executed(
            record, Command(("-",), Path("/"), {}, b"", Limits(grace=3.0, kept_bytes=kept))
        )

    async def _executed(self, record: Record, job: Command) -> Reply:
        try:
            ran = await execute(self._processes, record.token, job, self._redactor)
        except asyncio.CancelledError:
            body = {"error": "the caller hung up, so it was ended", "code": "ended"}
            self._finish(record, 409, body)
            raise
        if ran.lost:
            return self._finish(record, *unknown_outcome())
        return self._finish(record, 200, {"id": record.token, "action": record.action, **ran.body()})

    def _finish(self, record: Record, status: int, body: dict[str, Any]) -> Reply:
        """Keep the result, then let go of what the supervisor kept."""
        try:
            if record.name == record.token:
                self._calls.forget(record.name)  # without a key nobody can ask for it again
            else:
                self._calls.write(record.ended(status, body))
            self._processes.forget(record.token)
        except SegueError:
            pass  # the record stays unfinished, and the job's folder still holds the result
        told = {
            name: body[name]
            for name in ("exit_code", "signal", "ended_by", "seconds", "code")
            if name in body
        }
        self._note("ended", id=record.token, action=record.action, status=status, **told)
        return Reply(status, body)

    def _note(self, event: str, **facts: Any) -> None:
        # Nothing is run because of this, and what was run is noted as started.
        with contextlib.suppress(OSError):
            self._audit.write(event, **facts)


async def _unless_gone(task: asyncio.Task[Reply], gone: Gone) -> Reply:
    """The result, or the end of the action when the caller hangs up first."""
    left = asyncio.ensure_future(gone())
    await asyncio.wait({task, left}, return_when=asyncio.FIRST_COMPLETED)
    left.cancel()
    if not task.done():
        task.cancel()
    try:
        return await task
    except asyncio.CancelledError:
        return Reply(409, {"error": "the caller hung up, so it was ended", "code": "ended"})
