"""The process between Segue and an agent that speaks the Agent Client Protocol.

The protocol is a conversation, but an agent that outlives Segue has nobody to talk to. So Segue starts and
adopts this small driver instead: it gets one JSON document on stdin (see `AcpAgent`), and lines with what to
prompt next while the agent works. It starts the agent as its child, talks to it, and prints one JSON line for
everything it sees:

    {"type": "start", …}                     what the agent says about itself
    {"type": "session", "id": …, "how": "new" | "load" | "resume"}
    {"type": "text", "text": …}              what it says
    {"type": "thought", "text": …}
    {"type": "tool", "state": "started" | "updated" | "completed", "name": …, "input": …, …}
    {"type": "permission", "name": …, "allowed": true | false, …}
    {"type": "usage" | "plan" | "raw", …}
    {"type": "said", "number": …}            what it is told now, after a turn
    {"type": "lost", "bytes": …}             a line that is too long to be read
    {"type": "result", "stop_reason": …}     after each turn, or
    {"type": "error", "stage": …, "code": …, "message": …}   or
    {"type": "died", "stage": …, "message": …}

It uses the standard library only, and leaves no child behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import IO

from segue.agents.acp.client import AcpClient, AcpMessage, AcpRefusal, AgentGone
from segue.agents.local.values import clip
from segue.system.process.group import startable

_LINE_BYTES = 64 * 1024 * 1024
_WAITING_LINES = 1000
_STDERR_BYTES = 64 * 1024
_CANCEL_SECONDS = 1.0
_STDERR_SECONDS = 2.0


class Stopped(BaseException):
    """Somebody asked the driver to stop."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main(_arguments: list[str]) -> int:
    """Read the job, have the conversation, stop the agent."""
    job = json.loads(sys.stdin.buffer.readline())
    for name in ("SIGINT", "SIGTERM", "SIGBREAK"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _stop)
    try:
        agent = AgentProcess(job["argv"], job["cwd"], job["retry_text"])
    except OSError as error:
        message = f"{job['argv'][0]}: {error.strerror}"
        _print({"type": "error", "stage": "start", "code": None, "message": message})
        return 1
    client = AcpClient(agent, _print, job, map(json.loads, sys.stdin.buffer))
    try:
        return _talk(client, agent)
    except Stopped as stopped:
        if stopped.number != signal.SIGTERM:
            with contextlib.suppress(TimeoutError, Stopped):
                client.cancel(_CANCEL_SECONDS)
        return 128 + stopped.number
    finally:
        agent.stop(job["end_grace"])
        agent.await_stderr()
        for text in agent.late_retries():
            _print({"type": "retry", "text": text})


def _stop(number: int, _frame: object) -> None:
    raise Stopped(number)


def _talk(client: AcpClient, agent: AgentProcess) -> int:
    try:
        client.run()
    except AcpRefusal as error:
        line = {"type": "error", "stage": error.stage, "code": error.code, "message": str(error)}
        _print({**line, "data": error.data})
        return 1
    except AgentGone as gone:
        code = agent.exit_code()
        _print({"type": "died", "stage": client.stage, "message": str(gone), "exit_code": code})
        return 1
    return 0


def _print(line: AcpMessage) -> None:
    # One write per line, in ASCII, which every reader understands.
    sys.stdout.buffer.write(json.dumps(line).encode() + b"\n")
    sys.stdout.buffer.flush()


class AgentProcess:
    """The agent's process: threads read its lines and write ours, so that nobody waits.

    Its stderr is copied to ours; a line that says that it retries becomes a message.
    """

    def __init__(self, argv: list[str], cwd: str, retry_text: list[str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            startable(argv, os.environ), cwd=cwd, stdin=pipe, stdout=pipe, stderr=pipe
        )
        self._retries = [re.compile(pattern) for pattern in retry_text]
        self._incoming: queue.Queue[AcpMessage | None] = queue.Queue(_WAITING_LINES)
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._stderr_reader = threading.Thread(target=self._read_stderr, daemon=True)
        self._stderr_reader.start()
        for work in (self._read, self._write):
            threading.Thread(target=work, daemon=True).start()

    def send(self, message: AcpMessage) -> None:
        """Send a message; it is lost if the agent is gone."""
        self._outgoing.put(json.dumps(message).encode() + b"\n")

    def receive(self, timeout: float | None) -> AcpMessage | None:
        """Return the next message; None if there will be no more. Raises TimeoutError."""
        try:
            return self._incoming.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError from None

    def exit_code(self) -> int | None:
        """Return the exit code, if it ends at once; negative for a signal."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(1.0)
        return None

    def await_stderr(self) -> None:
        """Wait a moment for the rest of stderr; a process that it left behind may keep that open."""
        self._stderr_reader.join(_STDERR_SECONDS)

    def late_retries(self) -> Iterator[str]:
        """Yield the retries on its stderr that were read only after its last answer."""
        with contextlib.suppress(queue.Empty):
            while True:
                message = self._incoming.get_nowait()
                if message is not None and "retrying" in message:
                    yield str(message["retrying"])

    def stop(self, grace: float) -> None:
        """Close its stdin, then terminate it, then kill it."""
        self._outgoing.put(None)
        for harder in (self._process.terminate, self._process.kill, lambda: None):
            with contextlib.suppress(subprocess.TimeoutExpired, Stopped):
                self._process.wait(grace)
                return
            harder()

    def _read(self) -> None:
        out = self._process.stdout
        assert out is not None
        for message in _read_messages(out):
            self._incoming.put(message)
        self._incoming.put(None)

    def _read_stderr(self) -> None:
        pipe = self._process.stderr
        assert pipe is not None
        while line := pipe.readline(_STDERR_BYTES):
            with contextlib.suppress(OSError):
                sys.stderr.buffer.write(line)
                sys.stderr.buffer.flush()
            text = line.decode("utf-8", "replace").rstrip()
            for found in filter(None, (pattern.match(text) for pattern in self._retries)):
                self._incoming.put({"retrying": clip(found[found.lastindex or 0], 2000)})

    def _write(self) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        with contextlib.suppress(OSError, ValueError):
            while (data := self._outgoing.get()) is not None:
                pipe.write(data)
                pipe.flush()
        with contextlib.suppress(OSError):
            pipe.close()


def _read_messages(out: IO[bytes]) -> Iterator[AcpMessage]:
    """Yield the JSON objects among the agent's lines, and the beginning of all other lines."""
    while line := out.readline(_LINE_BYTES):
        if not line.endswith(b"\n") and len(line) >= _LINE_BYTES:
            size = len(line)
            while rest := out.readline(_LINE_BYTES):
                size += len(rest)
                if rest.endswith(b"\n"):
                    break
            yield {"too_long": size}
            continue
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if isinstance(message, dict):
            yield message
        elif line.strip():
            yield {"noise": clip(line.decode("utf-8", "replace").rstrip(), 2000)}
