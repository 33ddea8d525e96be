"""Record a launch: put the recorder between an agent and its model, and keep what it has seen, redacted."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from segue.domain.errors import UsageError, WorkspaceError
from segue.domain.events import AgentRecorded, Event, NoticeGiven
from segue.domain.job import Job
from segue.domain.outcome import Outcome
from segue.ports import Problem
from segue.system.files import private_folder, write_atomic
from segue.system.git.repository import Repository
from segue.system.isolation.isolate import Isolation, Means
from segue.system.process.processes import Command
from segue.system.process.segue import own_command
from segue.system.recording.exchanges import (
    ModelExchange,
    RecordedLaunch,
    Recording,
    change_body,
    change_data,
)
from segue.system.recording.spool import read_spool
from segue.system.redact import Redactor
from segue.system.services import Services

FOLDER = "recordings"
"""Where the recordings of a run are, among what its agents share."""
_FAST = 1
_SPOOL, _BEGUN = "recording", "begun.json"


class LaunchRecorder(Struct, frozen=True):
    """Records the launches of one agent."""

    agent: str
    version: str
    upstream: str
    """The address to which the agent would talk."""

    async def begin(self, services: Services, job: Job, command: Command) -> Command:
        """Return the command that records, and note once what the agent begins with."""
        folder = private_folder(services.processes.scratch(job.token) / _SPOOL)
        if not (folder / _BEGUN).exists():
            found = _Begun(await _look(job.workspace), job.prompt.text)
            write_atomic(folder / _BEGUN, msgspec.json.encode(found))
        document = json.dumps({"folder": str(folder), "upstream": self.upstream})
        starter = own_command("segue.system.recording.child")
        return replace(command, argv=(*starter, document, *command.argv))

    async def keep(self, services: Services, job: Job, outcome: Outcome) -> Event:
        """Store what was recorded where the run keeps what its agents leave, and say where."""
        try:
            return await self._keep(services, job, outcome)
        except OSError as error:
            return NoticeGiven(f"The launch was not recorded: {error.strerror or error}.")

    async def _keep(self, services: Services, job: Job, outcome: Outcome) -> AgentRecorded:
        spool = services.processes.scratch(job.token) / _SPOOL
        begun = msgspec.json.decode((spool / _BEGUN).read_bytes(), type=_Begun)
        before = begun.work
        after = await _look(job.workspace)
        shared = services.processes.shared(FOLDER)
        exchanges, left_out = await asyncio.to_thread(read_spool, spool)
        launch = RecordedLaunch(
            self.agent,
            self.version,
            job.token,
            begun.prompt,
            str(job.workspace),
            str(shared.parent.parent),
            job.mode,
            job.model,
            job.session,
            job.web,
            before.head,
            before.branch,
            before.tree,
            after.tree,
            outcome.session,
            left_out,
        )
        place = shared / f"{job.token}.jsonl.xz"
        size = await asyncio.to_thread(
            write_recording, place, Recording(launch, tuple(exchanges)), services.redactor
        )
        whole = not left_out and all(one.whole for one in exchanges)
        name = str(place.relative_to(shared.parent.parent))
        return AgentRecorded(name, len(exchanges), size, self.version, whole)


def read_recording(path: Path) -> Recording:
    """Read a recording; raises UsageError if there is none."""
    import lzma

    try:
        with lzma.open(path) as file:
            first, *others = file.read().splitlines()
        exchanges = tuple(msgspec.json.decode(line, type=ModelExchange) for line in others)
        return Recording(msgspec.json.decode(first, type=RecordedLaunch), exchanges)
    except FileNotFoundError:
        raise UsageError(
            f"The recording {path} is not here.",
            hint="It is on the machine that launched the agent, until `segue gc` deletes the run's files",
        ) from None
    except (OSError, EOFError, ValueError, lzma.LZMAError, msgspec.MsgspecError) as error:
        raise UsageError(f"The recording {path} cannot be read: {error}") from None


def recording_problems(isolation: Isolation) -> list[Problem]:
    """Return what keeps launches from being recorded here."""
    if sys.platform == "win32":
        return [Problem("Launches cannot be recorded on Windows.", "Leave `record` out, or use WSL.", 2)]
    if not isolation.is_off and isolation.chosen.means is Means.CONTAINER:
        message = "Launches in a container cannot be recorded: it does not reach this machine's loopback."
        return [Problem(message, 'Leave `record` out, or set isolation = "bwrap".', 2)]
    return []


class _WorkState(Struct, frozen=True):
    """What is in a work tree."""

    head: str = ""
    branch: str = ""
    tree: str = ""


class _Begun(Struct, frozen=True):
    """What a launch began with. Who adopts it later may have worded the prompt otherwise."""

    work: _WorkState
    prompt: str


async def _look(folder: Path) -> _WorkState:
    """Return what is in a work tree; nothing where there is none, or git makes no tree of it."""
    try:
        repo = await Repository.open(folder)
        now = await repo.snapshot()
        return _WorkState(now.head, now.branch, await repo.tree(now))
    except WorkspaceError:
        return _WorkState()


def write_recording(path: Path, recording: Recording, redactor: Redactor) -> int:
    """Write a recording without secrets; return its size."""
    import lzma

    lines = [
        redactor.struct(recording.launch),
        *(redact_exchange(one, redactor) for one in recording.exchanges),
    ]
    draft = path.with_name(f"{path.name}.draft")
    with lzma.open(draft, "wb", preset=_FAST) as file:
        for line in lines:
            file.write(msgspec.json.encode(line) + b"\n")
    draft.chmod(0o600)
    os.replace(draft, path)  # noqa: PTH105 - a recording is whole or not there
    return path.stat().st_size


def redact_exchange(one: ModelExchange, redactor: Redactor) -> ModelExchange:
    """Return an exchange without secrets, also those that came in pieces."""
    return replace(
        one,
        path=redactor.text(one.path),
        request=change_data(one.request, redactor.text),
        headers={name: redactor.text(value) for name, value in one.headers.items()},
        body=change_body(one.body, redactor.text),
    )
