"""The supervisor's events where pipes cannot be selected: a thread for each pipe, one lock for all.

Windows needs it, but it works on every system, so that tests can run it on Linux.
"""

# Importing pathlib would cost a third of the supervisor's start-up time.
# ruff: noqa: PTH110
from __future__ import annotations

import contextlib
import os
import signal
import threading
import time

from segue.system.process.notes import quit_note
from segue.system.supervisor.job import PIPE_MAX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import IO

    from segue.system.supervisor.job import SupervisedJob
    from segue.system.supervisor.main import Supervisor

_CHUNK = 64 * 1024
_NAP = 0.1
"""How late a signal or a note may be noticed."""
_LAST_WORDS = 2.0
"""Seconds for reading the rest of a pipe after the agent's exit, and for Segue to read the last reply."""


class ThreadBackend:
    """Every thread changes state under one lock; the main thread releases it only while it waits."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._changed = threading.Condition()
        self._reading: dict[str, int] = {}
        self._writing = False
        self._asked_to_quit = False
        for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGBREAK"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), self._note_signal)

    def __enter__(self) -> None:
        """Take the lock and start to read requests."""
        self._changed.acquire()
        self._start(self._read_requests)
        self._start(self._write)

    def __exit__(self, *_error: object) -> None:
        deadline = time.monotonic() + _LAST_WORDS
        while (self._supervisor.client.waiting or self._writing) and time.monotonic() < deadline:
            self._changed.wait(_NAP)
        self._changed.release()

    def wait(self, timeout: float | None) -> None:
        """Release the lock until another thread has done something."""
        self._changed.wait(_NAP if timeout is None else min(_NAP, timeout))
        if self._asked_to_quit or os.path.exists(quit_note(self._supervisor.folder, self._supervisor.name)):
            self._supervisor.quit()

    def follow(self, job: SupervisedJob) -> None:
        """Watch the job's output and its end. From now on its pipes belong to their threads."""
        assert job.process
        pipes, job.pipes = job.pipes, {}
        if job.stdin is not None:
            self._start(self._write_stdin, job, job.stdin.fileno())
        self._reading[job.token] = len(pipes)
        for name, pipe in pipes.items():
            self._start(self._read_output, job, name, pipe)
        self._start(self._wait_for_exit, job)

    def feed(self, _job: SupervisedJob) -> None:
        """Wake the thread that tells the agent what it is to do."""
        self._changed.notify_all()

    def leave(self, job: SupervisedJob) -> None:
        """Do nothing: the threads end by themselves, and store nothing once the job is closed."""

    def quiet(self, job: SupervisedJob) -> bool:
        """Return whether all output has been read, or a grandchild has kept a pipe open for too long."""
        late = job.ended_at is not None and time.monotonic() > job.ended_at + _LAST_WORDS
        return late or not self._reading.get(job.token)

    def reap(self) -> None:
        """Do nothing: a thread waits for each agent."""

    def tell(self) -> None:
        """Wake the writer."""
        self._changed.notify_all()

    def _start(self, work: object, *arguments: object) -> None:
        threading.Thread(target=work, args=arguments, daemon=True).start()  # type: ignore[arg-type]

    def _note_signal(self, number: int, _frame: FrameType | None) -> None:
        # A handler interrupts this very thread wherever it is, so it changes nothing but this.
        self._asked_to_quit = self._asked_to_quit or number != getattr(signal, "SIGHUP", None)

    def _read_requests(self) -> None:
        data = b"?"
        while data:
            data = _read(0)
            with self._changed:
                self._supervisor.handle_input(data)
                self._changed.notify_all()

    def _write(self) -> None:
        client = self._supervisor.client
        while True:
            with self._changed:
                while not client.waiting:
                    self._changed.wait()
                data, client.waiting = client.waiting, b""
                self._writing = True
            _write_all(1, data)
            with self._changed:
                self._writing = False
                self._changed.notify_all()

    def _read_output(self, job: SupervisedJob, name: str, pipe: IO[bytes]) -> None:
        late = 0
        while (data := _read(pipe.fileno())) and late < PIPE_MAX:
            with self._changed:
                late += len(data) if job.exit is not None else 0
                job.keep(name, data)
                self._changed.notify_all()
        pipe.close()
        with self._changed:
            self._reading[job.token] -= 1
            self._changed.notify_all()

    def _write_stdin(self, job: SupervisedJob, stdin: int) -> None:
        while True:
            with self._changed:
                while job.stdin is not None and not job.untold and not job.is_idle:
                    self._changed.wait()
                data, job.untold = job.untold, b""
                if job.stdin is None or not data:
                    job.close_stdin()
                    return
            _write_all(stdin, data)

    def _wait_for_exit(self, job: SupervisedJob) -> None:
        assert job.process
        code = job.process.wait()
        with self._changed:
            self._supervisor.handle_exit(job.process.pid, code)
            self._changed.notify_all()


def _read(fd: int) -> bytes:
    try:
        return os.read(fd, _CHUNK)
    except OSError:  # a pipe whose other end was killed, on Windows
        return b""


def _write_all(fd: int, data: bytes) -> None:
    with contextlib.suppress(OSError):  # Segue is gone
        while data:
            data = data[os.write(fd, data) :]
