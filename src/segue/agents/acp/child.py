"""The process between Segue and an agent that speaks the Agent Client Protocol.

That protocol is a conversation, but an agent that outlives Segue has nobody to talk to. So this small
driver is what Segue starts and adopts: it gets one JSON document on stdin (see `acp.AcpAgent`), starts the
agent as its child, speaks with it, and prints one JSON line for everything it sees:

    {"type": "start", …}                     what the agent says of itself
    {"type": "session", "id": …, "how": "new" | "load" | "resume"}
    {"type": "text" | "proposal", "text": …} what it says; the plan it proposes
    {"type": "thought", "chars": …}
    {"type": "tool", "state": "started" | "updated" | "completed", "name": …, "input": …, …}
    {"type": "permission", "name": …, "allowed": true | false, …}
    {"type": "usage" | "plan" | "raw", …}
    {"type": "result", "stop_reason": …}     or
    {"type": "error", "stage": …, "code": …, "message": …}   or
    {"type": "died", "stage": …, "message": …}

It uses the standard library alone. It leaves no child behind.
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

from segue.agents.acp.client import Gone, Line, Refused, Talk
from segue.agents.cursor.tools import clip
from segue.system.process.group import startable

_LINE_BYTES = 64 * 1024 * 1024
_WAITING_LINES = 1000
_STDERR_BYTES = 64 * 1024
_CANCEL_SECONDS = 1.0
_LAST_WORDS_SECONDS = 0.5


class Stopped(BaseException):
    """Somebody has asked the driver to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main(_arguments: list[str]) -> int:
    """Read the job, carry the conversation, end the agent."""
    job = json.loads(sys.stdin.buffer.read())
    for name in ("SIGINT", "SIGTERM", "SIGBREAK"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), _stop)
    try:
        agent = Agent(job["argv"], job["cwd"], job["retry_text"])
    except OSError as error:
        _tell(
            {
                "type": "error",
                "stage": "start",
                "code": None,
                "message": f"{job['argv'][0]}: {error.strerror}",
            }
        )
        return 1
    talk = Talk(agent, _tell, job)
    try:
        return _carried(talk, agent)
    except Stopped as stopped:
        if stopped.number != signal.SIGTERM:
            with contextlib.suppress(TimeoutError, Stopped):
                talk.cancel(_CANCEL_SECONDS)
        return 128 + stopped.number
    finally:
        agent.end(job["end_grace"])
        agent.last_words()


def _stop(number: int, _frame: object) -> None:
    raise Stopped(number)


def _carried(talk: Talk, agent: Agent) -> int:
    try:
        talk.run()
    except Refused as refusal:
        line = {"type": "error", "stage": refusal.stage, "code": refusal.code, "message": str(refusal)}
        _tell({**line, "data": refusal.data})
        return 1
    except Gone as gone:
        code = agent.exit_code()
        _tell({"type": "died", "stage": talk.stage, "message": str(gone), "exit_code": code})
        return 1
    return 0


def _tell(line: Line) -> None:
    # One write per line, and no characters that only some readers take for text.
    sys.stdout.buffer.write(json.dumps(line).encode() + b"\n")
    sys.stdout.buffer.flush()


class Agent:
    """The agent's process: threads read its lines and write ours, so that nobody waits.

    What it prints on stderr goes on to ours; a line that says that it tries again becomes a message.
    """

    def __init__(self, argv: list[str], cwd: str, retry_text: list[str]) -> None:
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            startable(argv, os.environ), cwd=cwd, stdin=pipe, stdout=pipe, stderr=pipe
        )
        self._retries = [re.compile(pattern) for pattern in retry_text]
        self._incoming: queue.Queue[Line | None] = queue.Queue(_WAITING_LINES)
        self._outgoing: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._ear = threading.Thread(target=self._listen, daemon=True)
        self._ear.start()
        for work in (self._read, self._write):
            threading.Thread(target=work, daemon=True).start()

    def send(self, message: Line) -> None:
        """Send a message; it is lost if the agent has gone."""
        self._outgoing.put(json.dumps(message).encode() + b"\n")

    def receive(self, timeout: float | None) -> Line | None:
        """The next message; None when there will be no more. Raises TimeoutError."""
        try:
            return self._incoming.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError from None

    def exit_code(self) -> int | None:
        """How it ended, if it ends at once; negative for a signal."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(1.0)
        return None

    def last_words(self) -> None:
        """Wait a moment for what it has printed on stderr; something it left behind may hold that open."""
        self._ear.join(_LAST_WORDS_SECONDS)

    def end(self, grace: float) -> None:
        """Close its stdin, then tell it to end, then kill it."""
        self._outgoing.put(None)
        for harder in (self._process.terminate, self._process.kill, lambda: None):
            with contextlib.suppress(subprocess.TimeoutExpired, Stopped):
                self._process.wait(grace)
                return
            harder()

    def _read(self) -> None:
        out = self._process.stdout
        assert out is not None
        for message in _messages(out):
            self._incoming.put(message)
        self._incoming.put(None)

    def _listen(self) -> None:
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


def _messages(out: IO[bytes]) -> Iterator[Line]:
    """The JSON objects among the agent's lines; of what is none a little is kept."""
    while line := out.readline(_LINE_BYTES):
        if not line.endswith(b"\n") and len(line) >= _LINE_BYTES:
            while (rest := out.readline(_LINE_BYTES)) and not rest.endswith(b"\n"):
                pass
            yield {"too_long": len(line)}
            continue
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if isinstance(message, dict):
            yield message
        elif line.strip():
            yield {"noise": clip(line.decode("utf-8", "replace").rstrip(), 2000)}
