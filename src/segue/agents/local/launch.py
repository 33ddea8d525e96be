"""Run a program for a job: from a command to events, in bounded memory.

An agent builds the command and brings a reader, which turns lines of stdout into events and, at the end,
everything it has seen into the outcome.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Protocol, cast

from msgspec import Struct
from msgspec.structs import replace

from segue.agents.local.output import OutputStream
from segue.agents.local.speech import Hear
from segue.domain.errors import SegueError
from segue.domain.events import AgentStarted, AgentText, AgentUsage, Event
from segue.domain.job import Job, Mode
from segue.domain.outcome import Failure, FailureKind, Outcome, Usage
from segue.domain.text import AnswerText, is_too_long
from segue.system.files import write_atomic
from segue.system.isolation.policy import Places
from segue.system.process.processes import Chunk, Command, Exit, Processes, capture, inside_environment
from segue.system.services import Services

NOTHING = Places()
_PLAIN_FAILURES = (FailureKind.CRASH, FailureKind.UNKNOWN, FailureKind.NO_RESULT)
_AFTER_RESULT = frozenset({"ended", "wall", "idle", "lost"})
_SESSION = re.compile(r"[A-Za-z0-9_-]{1,100}")


class ProcessEnd(Struct, frozen=True):
    """How the program ended, and the last things it printed."""

    exit: Exit
    out_tail: str
    err_tail: str

    @property
    def is_clean(self) -> bool:
        """True if the program ended by itself, with exit code 0."""
        return (self.exit.code, self.exit.signal, self.exit.reason) == (0, None, None)

    @property
    def keeps_result(self) -> bool:
        """True if a result that was read before still counts: some programs never exit after it."""
        return self.is_clean or self.exit.reason in _AFTER_RESULT

    def failure(self, now: float, out_tail: str | None = None) -> Failure | None:
        """Return why the program failed, as far as its exit code and last lines tell."""
        from segue.agents.classify import classify  # its patterns take a while to compile: not at start-up

        end = self.exit
        out = self.out_tail if out_tail is None else out_tail
        return classify(end.code, end.signal, end.reason, end.message, out, self.err_tail, now)


class Reader(Protocol):
    """Reads what one launch prints."""

    def read(self, text: str) -> list[Event] | None:
        """Return the events in a line of stdout; None if it is plain text."""

    def outcome(self, end: ProcessEnd, now: float) -> Outcome:
        """Return how the launch ended, judging by everything that was read."""


ReadLine = Callable[[str], Sequence[Event]]
"""Turns a line that the program prints into events."""


class PlainOutput:
    """The reader for a program of which nothing is known: all it prints is its answer.

    With `read_line`, its answer is the text in the events, and its usage the last one that was reported.
    """

    def __init__(
        self,
        model: str | None = None,
        read_line: ReadLine | None = None,
        *,
        logs: bool = False,
        hear: Hear | None = None,
    ) -> None:
        """`logs`: what it prints may be longer than any answer; then the end of it is the answer.

        `hear` takes the lines as they come, if nobody else reads them.
        """
        self._hear = hear
        self._model, self._logs = model, logs
        self._read_line = read_line
        self._said = AnswerText()
        self._usage: Usage | None = None

    def read(self, text: str) -> list[Event] | None:
        """Return the events in a line; None if nobody reads the lines."""
        if self._read_line is None:
            self._said.add(text)
            self._said.add("\n")
            if self._hear is not None:
                self._hear(f"{text}\n")
            return None
        events = list(self._read_line(text))
        for event in events:
            if isinstance(event, AgentText):
                self._said.add(f"\n{event.text}")
            elif isinstance(event, AgentUsage):
                self._usage = event.count()
        return events

    def outcome(self, end: ProcessEnd, now: float) -> Outcome:
        """Return how the program ended, with what it said."""
        from segue.agents.classify import plain

        said = plain(str(self._said))
        if self._logs and is_too_long(said):
            said = f"[only the end of what it printed is kept]\n{plain(end.out_tail)}"
        if not is_too_long(said):
            said = said.strip() if self._read_line else said.rstrip()
        return Outcome(
            said,
            end.failure(now),
            end.exit.code,
            model=self._model,
            usage=self._usage,
            duration=end.exit.duration,
        )


def flag(name: str, value: object) -> list[str]:
    """Return an option with its value for the command line; nothing if the value is empty."""
    return [name, str(value)] if value else []


def make_command(
    job: Job,
    argv: Sequence[str],
    passed: Iterable[str] = (),
    variables: Mapping[str, str] | None = None,
    stdin: str | None = None,
    own: Places = NOTHING,
    turn_end: str = "",
) -> Command:
    """Return the command that does a job: it gets the prompt on stdin unless `stdin` says otherwise.

    Its environment has the variables that are always allowed, those named in `passed`, the given ones, and
    the labels of the job. `own` is what it needs in a sandbox, beside the work tree; `turn_end` is what it
    prints when it has done what its stdin said, where that takes more lines meanwhile.
    """
    labels = {f"SEGUE_{name.upper()}": value for name, value in job.labels.items()}
    env = inside_environment(passed, {**(variables or {}), **labels})
    text = job.prompt.text if stdin is None else stdin
    data = text.encode("utf-8", "replace")
    return Command(tuple(argv), job.workspace, env, data, job.limits, own, turn_end=turn_end)


async def run_program(
    services: Services,
    job: Job,
    command: Command,
    reader: Reader,
    patience: Callable[[], float | None] = lambda: None,
    give_up: Callable[[], None] = lambda: None,
) -> AsyncGenerator[Event | Outcome, None]:
    """Run the command, or adopt it if the job's token is known; the last item is the outcome.

    `patience` returns how many seconds of silence are acceptable now (None: as many as the job's limits
    allow). After that the program is stopped and `give_up` is called.
    """
    kept = command.limits.kept_bytes
    streams = {
        "out": OutputStream("out", kept, reader.read),
        "err": OutputStream("err", kept),
    }
    yield AgentStarted(command.argv[0])
    if services.isolation.is_off:
        command = enclose(services, job, command)
    else:  # there is much to look at, so it is done in a thread
        command = await asyncio.to_thread(enclose, services, job, command)
    items = cast("AsyncGenerator[Chunk | Exit, None]", services.processes.run(job.token, command))
    async with aclosing(items):
        while True:
            try:
                async with asyncio.timeout(patience()):
                    item = await anext(items)
            except TimeoutError:
                # The timeout has closed the iterator, which stopped the program.
                give_up()
                item = await _read_exit(services.processes, job.token, command)
            if isinstance(item, Exit):
                break
            for event in streams[item.stream].feed(item.data):
                yield event
    for stream in streams.values():
        for event in stream.close():
            yield event
    end = ProcessEnd(item, streams["out"].tail, streams["err"].tail)
    outcome = _doubt(_explain(services, reader.outcome(end, time.time()), end))
    await _clear(services, job)
    killed = {} if item.signal is None else {"signal": item.signal}
    yield replace(outcome, facts={"pid": item.pid, "adopted": item.adopted, **killed, **outcome.facts})


def enclose(services: Services, job: Job, command: Command) -> Command:
    """Return the command inside of the sandbox; who only plans or answers changes nothing."""
    scratch = services.processes.scratch(job.token, create=False) / "sandbox"
    edits = job.mode is Mode.EDIT
    inside = services.isolation.enclose(
        command.argv, command.cwd, command.env, scratch, command.own, edits=edits
    )
    return replace(command, argv=inside.argv, env=inside.env, layers=inside.layers)


def _doubt(outcome: Outcome) -> Outcome:
    """Note what the last words of a program mean that ended well, if it turns out that it did nothing."""
    if outcome.failure is not None or is_too_long(outcome.text):
        return outcome
    from segue.agents.classify import read_last_words

    return replace(outcome, doubt=read_last_words(outcome.text, time.time()))


def _explain(services: Services, outcome: Outcome, end: ProcessEnd) -> Outcome:
    """Name the setting that opens a place, where a program failed because the sandbox has closed it."""
    failure = outcome.failure
    if failure is None or failure.kind not in _PLAIN_FAILURES:
        return outcome
    said = services.isolation.explain(f"{end.out_tail}\n{end.err_tail}")
    return (
        replace(outcome, failure=replace(failure, message=f"{failure.message}\n{said}")) if said else outcome
    )


async def _clear(services: Services, job: Job) -> None:
    """End a container whose client was killed: the runtime would let it run on."""
    argv = services.isolation.ending(job.token)
    if argv is not None:
        with contextlib.suppress(OSError, SegueError):
            await capture(argv, job.workspace, dict(os.environ))


async def _read_exit(processes: Processes, token: str, command: Command) -> Exit:
    """Return how a program ended that was stopped; under its token that can be read at any time."""
    found: Exit | None = None
    async for item in processes.run(token, command):
        found = item if isinstance(item, Exit) else None
    assert found is not None, "the last item of a process is its exit"
    return replace(found, adopted=False)


class SessionUsage:
    """What one launch used, for agents that report the total of the session it continues."""

    def __init__(self, before: Usage | None = None, folder: Path | None = None) -> None:
        """`before` is the session's total when the launch started."""
        self._before = before or Usage()
        self._folder = folder
        self.total: Usage | None = None
        """The session's total, once the agent has reported it."""

    @classmethod
    def open(cls, processes: Processes, agent: str, job: Job) -> SessionUsage:
        """Read the session's total; an adopted launch gets the one it started with."""
        folder, note = processes.shared(agent), processes.scratch(job.token) / "usage-before.json"
        if not note.exists():
            stored = _total_file(folder, job.session)
            write_atomic(note, stored.read_bytes() if stored and stored.is_file() else b"[0, 0]")
        return cls(Usage(*json.loads(note.read_text())), folder)

    def report(self, reported: Usage, launch: Usage | None = None) -> None:
        """Take what the agent reports: the total of the session, or what this launch used, by its version.

        `launch` is what this launch used in any version, as far as that is known: the nearer reading counts.
        """
        before = self._before
        total = reported.tokens >= before.tokens and reported.input_tokens >= before.input_tokens
        if total and launch is not None:
            total = abs(reported.tokens - before.tokens - launch.tokens) < abs(
                reported.tokens - launch.tokens
            )
        self.total = reported if total or not before.tokens else before + reported

    def spent(self) -> Usage | None:
        """Return what was added to the total by this launch; None if no total was reported."""
        if self.total is None:
            return None
        cost, cached = self.total.cost_usd, self.total.cached_tokens
        return Usage(
            max(0, self.total.input_tokens - self._before.input_tokens),
            max(0, self.total.output_tokens - self._before.output_tokens),
            None if cost is None else round(max(0.0, cost - (self._before.cost_usd or 0.0)), 9),
            None if cached is None else max(0, cached - (self._before.cached_tokens or 0)),
        )

    def store(self, session: str | None) -> None:
        """Store the session's total for the launches that continue it."""
        path = _total_file(self._folder, session) if self._folder else None
        if self.total is not None and path is not None:
            total = self.total
            numbers = [total.input_tokens, total.output_tokens, total.cost_usd, total.cached_tokens]
            write_atomic(path, json.dumps(numbers).encode())


def _total_file(folder: Path, session: str | None) -> Path | None:
    return folder / f"usage-{session}.json" if session and _SESSION.fullmatch(session) else None
