"""The supervisor's events on POSIX systems: one selector for Segue, the agents and signals."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys

from segue.system.supervisor.job import PIPE_MAX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from segue.system.supervisor.job import SupervisedJob
    from segue.system.supervisor.main import Supervisor

assert sys.platform != "win32"

_CHUNK = 64 * 1024


class SelectorBackend:
    """Handles everything in one thread, and never waits for a reader."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._selector = selectors.DefaultSelector()
        os.set_blocking(0, False)
        os.set_blocking(1, False)
        self._selector.register(0, selectors.EVENT_READ, self._read_requests)
        wake, wakeup = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(wakeup, False)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        # Handlers and not SIG_IGN, which the agents would inherit.
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        self._selector.register(wake, selectors.EVENT_READ, lambda: self._read_signals(wake))

    def __enter__(self) -> None:
        """Do nothing: there is one thread."""

    def __exit__(self, *_error: object) -> None:
        pass

    def wait(self, timeout: float | None) -> None:
        """Wait for events and handle them."""
        for key, _ in self._selector.select(timeout):
            key.data()

    def follow(self, job: SupervisedJob) -> None:
        """Watch the job's output, and begin to tell it what it is to do."""
        if job.stdin is not None:
            os.set_blocking(job.stdin.fileno(), False)
            self.feed(job)
        for name, pipe in job.pipes.items():
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(
                pipe, selectors.EVENT_READ, lambda name=name: self._read_output(job, name)
            )

    def feed(self, job: SupervisedJob) -> None:
        """Write what the agent's stdin takes now, and the rest later; close it when there will be no more."""
        if job.stdin is None:
            return
        try:
            while job.untold:
                job.untold = job.untold[os.write(job.stdin.fileno(), job.untold) :]
        except BlockingIOError:
            pass
        except OSError:  # the agent reads no more
            job.untold, job.is_idle = b"", True
        watched = job.stdin in self._selector.get_map()
        if job.untold and not watched:
            self._selector.register(job.stdin, selectors.EVENT_WRITE, lambda: self.feed(job))
        elif watched and not job.untold:
            self._selector.unregister(job.stdin)
        if job.is_idle and not job.untold:
            job.close_stdin()

    def leave(self, job: SupervisedJob) -> None:
        """Read what the agent left in its pipes, without waiting for a grandchild that keeps them open."""
        if job.stdin is not None and job.stdin in self._selector.get_map():
            self._selector.unregister(job.stdin)
        for name, pipe in job.pipes.items():
            self._selector.unregister(pipe)
            moved = 0
            while moved < PIPE_MAX and (count := _take(job, name)):
                moved += count
        job.close()

    def quiet(self, _job: SupervisedJob) -> bool:
        """Return True: `leave` has read everything."""
        return True

    def reap(self) -> None:
        """Handle the exit of every child that has ended, including adopted orphans."""
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self._supervisor.handle_exit(pid, os.waitstatus_to_exitcode(status))

    def tell(self) -> None:
        """Write what the pipe takes now, and the rest later."""
        client = self._supervisor.client
        try:
            while client.waiting:
                client.waiting = client.waiting[os.write(1, client.waiting) :]
        except BlockingIOError:
            pass
        except OSError:
            client.waiting = b""
        watched = 1 in self._selector.get_map()
        if client.waiting and not watched:
            self._selector.register(1, selectors.EVENT_WRITE, self.tell)
        elif watched and not client.waiting:
            self._selector.unregister(1)

    def _read_requests(self) -> None:
        try:
            data = os.read(0, _CHUNK)
        except BlockingIOError:
            return
        self._supervisor.handle_input(data)
        if not data:
            self._selector.unregister(0)

    def _read_signals(self, wake: int) -> None:
        numbers = os.read(wake, _CHUNK)
        if signal.SIGTERM in numbers or signal.SIGINT in numbers:
            self._supervisor.quit()
        self.reap()

    def _read_output(self, job: SupervisedJob, name: str) -> None:
        if name in job.pipes and _take(job, name) == 0:
            pipe = job.pipes.pop(name)
            self._selector.unregister(pipe)
            pipe.close()


def _take(job: SupervisedJob, name: str) -> int | None:
    """Move what is readable from the pipe to the file; return its size, 0 at the end, None for later."""
    try:
        data = os.read(job.pipes[name].fileno(), _CHUNK)
    except BlockingIOError:
        return None
    if data:
        job.keep(name, data)
    return len(data)
