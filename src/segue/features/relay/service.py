"""Runs actions for callers: each call is checked, logged, run once, and its result is stored."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from segue.domain.errors import SegueError
from segue.domain.job import Limits
from segue.features.relay.audit import Audit
from segue.features.relay.calls import CallRecord, Calls, hash_request, record_name, unknown_outcome
from segue.features.relay.execute import (
    GRACE,
    WrongParameter,
    check_parameters,
    execute,
    make_argv,
    make_command,
)
from segue.features.relay.options import RelaySettings
from segue.system.process.folder import RunFolder
from segue.system.process.processes import Command, Processes
from segue.system.redact import Redactor

_SETTLE_SECONDS = 10


class Reply(Struct, frozen=True):
    """The reply to a caller."""

    status: int
    body: dict[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict)


class CallRefused(Exception):
    """A call that is not run."""

    def __init__(self, status: int, code: str, error: str, headers: Mapping[str, str] = {}) -> None:
        super().__init__(error)
        self.reply = Reply(status, {"error": error, "code": code}, headers)


class ActionRequest(Struct, frozen=True):
    """A call as the caller sent it."""

    action: str
    parameters: Mapping[str, Any]
    key: str | None = None
    caller: str = ""


class AcceptedCall(Struct, frozen=True):
    """A call that passed its checks."""

    record: CallRecord
    command: Command
    values: dict[str, str]
    caller: str


class ActionService:
    """Runs calls. Create one per relay, and call `settle` at its end."""

    def __init__(
        self,
        settings: RelaySettings,
        folder: Path,
        processes: Processes,
        audit: Audit,
        redactor: Redactor,
    ) -> None:
        self._settings = settings
        self._folder = folder
        self._processes = processes
        self._audit = audit
        self._redactor = redactor
        self._calls = Calls(folder / "calls", settings.keep_days)
        self._busy: set[str] = set()
        self._running: dict[str, tuple[CallRecord, asyncio.Task[Reply]]] = {}

    def recover(self) -> None:
        """Adopt what an earlier relay left running; what nobody saw end has an unknown outcome."""
        for record in self._calls.unfinished():
            if RunFolder(self._folder.resolve()).job(record.token).claim() is None:
                self._finish(record, *unknown_outcome())
            else:
                self._start(record, self._adopt(record))

    async def settle(self) -> None:
        """Wait until the results of all stopped actions are stored."""
        if self._running:
            await asyncio.wait([task for _, task in self._running.values()], timeout=_SETTLE_SECONDS)

    def list_actions(self) -> list[dict[str, Any]]:
        """Return what callers may ask for, without the commands behind it."""
        return [
            {
                "name": name,
                "description": action.description,
                "parameters": action.parameters,
                "timeout": action.timeout,
                "running": name in self._busy,
            }
            for name, action in self._settings.actions.items()
        ]

    async def run(self, request: ActionRequest) -> Reply:
        """Run an action and return its result, or the reason for refusing it."""
        try:
            return await self._run(request)
        except CallRefused as refused:
            facts = {"action": request.action[:64], "key": bool(request.key), "caller": request.caller}
            self._log("refused", status=refused.reply.status, error=str(refused), **facts)
            return refused.reply

    async def _run(self, request: ActionRequest) -> Reply:
        call = self._accept(request)
        running, task = self._running.get(call.record.name, (None, None))
        known = running or self._calls.find(call.record.name)
        if known is not None and known.request not in (call.record.request, ""):
            raise CallRefused(422, "key_reused", "this Idempotency-Key belongs to another request")
        if known is not None and task is None:
            return self._replay(known, request)
        if task is None:
            if call.record.action in self._busy:
                error = f"{call.record.action} is already running"
                raise CallRefused(409, "busy", error, {"retry-after": "1"})
            task = self._start(call.record, self._perform(call))
        # A caller that disconnects does not stop the action.
        return await asyncio.shield(task)

    def _accept(self, request: ActionRequest) -> AcceptedCall:
        action = self._settings.actions.get(request.action)
        if action is None:
            raise CallRefused(404, "unknown_action", "there is no such action")
        try:
            values = check_parameters(action, request.parameters)
            command = make_command(action, make_argv(action, values))
        except WrongParameter as error:
            raise CallRefused(400, "parameter", str(error)) from None
        token = uuid.uuid4().hex
        digest = hash_request(request.action, values)
        name = record_name(request.key, token)
        record = CallRecord(name, token, request.action, digest, "started", round(time.time(), 3))
        return AcceptedCall(record, command, values, request.caller)

    def _replay(self, known: CallRecord, request: ActionRequest) -> Reply:
        status, body = (known.status, known.body or {}) if known.state == "ended" else unknown_outcome()
        self._log("replayed", id=known.token, action=known.action, status=status, caller=request.caller)
        return Reply(status, body, {"idempotent-replayed": "true"})

    def _start(self, record: CallRecord, work: Coroutine[Any, Any, Reply]) -> asyncio.Task[Reply]:
        """Start a task for the call."""
        self._busy.add(record.action)
        task = asyncio.create_task(work)
        self._running[record.name] = record, task

        def release(_task: asyncio.Task[Reply]) -> None:
            self._busy.discard(record.action)
            self._running.pop(record.name, None)

        task.add_done_callback(release)
        return task

    async def _perform(self, call: AcceptedCall) -> Reply:
        """Log, store and run the call."""
        record = call.record
        try:
            # Before it starts: what is not logged does not run, and what may have run does not run again.
            facts = {"parameters": call.values, "caller": call.caller, "argv": call.command.argv}
            self._audit.write("started", id=record.token, action=record.action, **facts)
            self._calls.write(record)
        except (OSError, SegueError):
            self._calls.forget(record.name)
            error = "the relay cannot write its log; nothing was run"
            return Reply(503, {"error": error, "code": "log"})
        return await self._execute(record, call.command)

    async def _adopt(self, record: CallRecord) -> Reply:
        """Follow a job that an earlier relay started; only its supervisor knows the command."""
        action = self._settings.actions.get(record.action)
        limits = Limits(grace=GRACE, kept_bytes=action.output_bytes if action else 64 * 1024)
        return await self._execute(record, Command(("-",), Path("/"), {}, b"", limits))

    async def _execute(self, record: CallRecord, command: Command) -> Reply:
        result = await execute(self._processes, record.token, command, self._redactor)
        if result.is_lost:
            return self._finish(record, *unknown_outcome())
        return self._finish(record, 200, {"id": record.token, "action": record.action, **result.body()})

    def _finish(self, record: CallRecord, status: int, body: dict[str, Any]) -> Reply:
        """Store the result, then delete what the supervisor kept."""
        try:
            if record.name == record.token:
                self._calls.forget(record.name)  # without a key nobody can ask for it again
            else:
                self._calls.write(record.end(status, body))
            self._processes.forget(record.token)
        except SegueError:
            pass  # the record stays unfinished, and the job's folder still has the result
        logged = ("exit_code", "signal", "ended_by", "seconds", "code")
        facts = {name: body[name] for name in logged if name in body}
        self._log("ended", id=record.token, action=record.action, status=status, **facts)
        return Reply(status, body)

    def _log(self, event: str, **facts: Any) -> None:
        # May fail: nothing runs because of this line, and what ran was logged as started.
        with contextlib.suppress(OSError):
            self._audit.write(event, **facts)
