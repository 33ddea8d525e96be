"""The supervisor, which outlives Segue: it starts agents, stores their output, enforces limits, ends them.

Segue starts it once per run, so it imports little. Pipes are for signals (JSON lines on stdin and stdout),
files for data (FOLDER/jobs/TOKEN). Requests are `hello`, `start`, `end` and `quit`; replies
are `taken`, `refused`, `output` and `ended`. The `reason` of an end is null (by itself), `wall`, `idle`,
`output`, `disk`, `ended` (asked to) or `not_started`.
"""

# Importing pathlib and typing would cost a third of the start-up time.
# ruff: noqa: PTH108, PTH110
from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time

from segue.system.identity import JOB_MARKER, SUPERVISOR_MARKER, find_survivors, own_children, start_time
from segue.system.process.cgroup import Container
from segue.system.process.group import kill, portable
from segue.system.process.notes import reserve, write_new, write_reserved
from segue.system.supervisor.job import LAST_RUNG, RESULT_MAX, SupervisedJob

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from segue.system.supervisor.threads import ThreadBackend

    if sys.platform == "win32":
        SelectorBackend = ThreadBackend
    else:
        from segue.system.supervisor.posix import SelectorBackend

_GIVE_UP = 10.0
_LOOK_AGAIN = 0.02
_LONGEST_NAP = 3600.0
_FACTS_MAX = 4096


class Client:
    """Segue at the other end of two pipes: its requests, and the replies that wait for it."""

    def __init__(self) -> None:
        self.attached = True
        self.waiting = b""
        self._asked = b""

    def requests(self, data: bytes) -> list[dict[str, Any]]:
        """Return the complete requests; one that is cut off at the end of the stream does not count."""
        self.attached = bool(data)
        *lines, self._asked = (self._asked + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def tell(self, **reply: Any) -> None:
        """Queue a reply."""
        if self.attached:
            self.waiting += json.dumps(reply).encode() + b"\n"


class Supervisor:
    """The loop: handles requests, output and signals, and looks at each job when it is due."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.name = ""
        self.marker = os.environ.get(SUPERVISOR_MARKER, "")
        self.jobs: dict[str, SupervisedJob] = {}
        self.left: list[Container] = []
        self.spare: Container | None = None
        self.client = Client()
        self.quitting = False
        self.tied = False
        self.subreaper = False
        self.io = _open_backend(self)

    def run(self) -> None:
        """Work until no job is left and no more requests can come."""
        with self.io:
            self._tidy()
            while self.jobs or (self.client.attached and not self.quitting):
                due = min((job.due() for job in self.jobs.values()), default=None)
                timeout = None if due is None else min(_LONGEST_NAP, max(0.0, due - time.monotonic()))
                self.io.wait(timeout)
                now = time.monotonic()
                for job in [job for job in self.jobs.values() if job.due() <= now]:
                    self._look_after(job, now)
                self._report()
                self._tidy()
            if self.spare is not None:
                self.spare.remove()

    def handle_input(self, data: bytes) -> None:
        """Handle what Segue has sent; no data means that it is gone."""
        for request in self.client.requests(data):
            self._handle(request)
        if self.tied and not self.client.attached:
            self.quit()  # these agents are never adopted

    def _handle(self, request: dict[str, Any]) -> None:
        kind = request["type"]
        if kind == "hello":
            self.name = request["name"]
            self.tied = request.get("tied", False)
            self.subreaper = become_subreaper()
        elif kind == "start" and not self.quitting:
            self._start(request)
        elif kind == "end" and request["token"] in self.jobs:
            self.jobs[request["token"]].end("ended", "it was asked to end")
        elif kind == "quit":
            self.quit()

    def quit(self) -> None:
        """End every job, then this process."""
        self.quitting = True
        for job in self.jobs.values():
            job.end("ended", "it was asked to end")

    def handle_exit(self, pid: int, code: int) -> None:
        """Handle the end of a child, which usually is an agent."""
        for job in list(self.jobs.values()):
            if job.pid == pid:
                job.note_exit(code)
                self.io.leave(job)
            elif job.exit is not None:
                job.due_at = time.monotonic()  # this may have been the last process that it left behind

    def _start(self, request: dict[str, Any]) -> None:
        token = request["token"]
        container, self.spare = self.spare or Container.create(), None
        job = SupervisedJob(request, f"{self.folder}/jobs/{token}", container)
        facts = self._facts(job)
        try:
            # Whoever creates this file starts the job; nobody can start it again, whatever happens next.
            write_new(f"{job.folder}/claim.json", facts)
            # The disk may be full when it ends, and its end must be known.
            reserve(f"{job.folder}/job.json", _FACTS_MAX)
            reserve(f"{job.folder}/exit.json", RESULT_MAX)
        except FileExistsError:
            job.container.remove()
            self.client.tell(type="taken", token=token)
            return
        except OSError as error:
            self._give_back(job, error)
            return
        self._spawn(job, facts)

    def _spawn(self, job: SupervisedJob, facts: dict[str, Any]) -> None:
        try:
            job.spawn()
            write_reserved(f"{job.folder}/job.json", {**facts, "child": self._identify(job.pid)})
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self._not_started(job, error)
            return
        self._watch(job)

    def _facts(self, job: SupervisedJob) -> dict[str, Any]:
        facts = {"supervisor": self.name, "marker": self.marker, "started": job.started, "grace": job.grace}
        return {**facts, **job.container.facts()}

    def _start_again(self, job: SupervisedJob) -> None:
        """Start what has not begun; its folder, with the claim and the room for its end, stays."""
        self.io.leave(job)
        job.close()
        facts = self._facts(other := job.again())
        try:
            reserve(f"{job.folder}/job.json", _FACTS_MAX)
        except OSError as error:
            self._not_started(other, error)
            return
        self._spawn(other, facts)

    def _give_back(self, job: SupervisedJob, error: OSError) -> None:
        """Leave a job whose notes cannot be written to whoever asks next; nobody was started."""
        job.container.remove()
        with contextlib.suppress(OSError):
            os.unlink(f"{job.folder}/claim.json")
        self.client.tell(type="refused", token=job.token, errno=error.errno)

    def _not_started(self, job: SupervisedJob, error: Exception) -> None:
        job.end("disk" if job.pid else "not_started", f"{type(error).__name__}: {error}")
        if job.pid is None:
            self._finish(job)
        else:
            self._watch(job)

    def _watch(self, job: SupervisedJob) -> None:
        self.jobs[job.token] = job
        self.io.follow(job)

    def _identify(self, pid: int | None) -> str:
        start = start_time(pid) if pid is not None else None
        return "/".join((*self.name.split("/")[:2], str(pid), start or "-"))

    def _look_after(self, job: SupervisedJob, now: float) -> None:
        if job.exit is not None or job.rung == LAST_RUNG:
            self._kill(job, now)
        elif job.reason is not None:
            job.climb()
        else:
            job.check_limits(now)
            if job.look_at <= now:
                job.look()
                self.io.feed(job)

    def _kill(self, job: SupervisedJob, now: float) -> None:
        """Kill what is left of a job, repeatedly until nothing is left."""
        job.container.kill()
        self.io.reap()
        left = self._survivors(job)
        for pid in left:
            kill(pid)
        job.killed_at = job.killed_at or now
        job.due_at = now + _LOOK_AGAIN
        if left and now > job.killed_at + _GIVE_UP:
            job.message += f"; {len(left)} of its processes could not be killed"
            self._finish(job)
        elif not left and job.exit is not None and self.io.quiet(job):
            (self._start_again if job.never_began and not self.quitting else self._finish)(job)

    def _survivors(self, job: SupervisedJob) -> set[int]:
        others = {other.pid for other in self.jobs.values() if other is not job}
        heirs = own_children() - others if self.subreaper else set()
        if self.subreaper and job.exit is not None and (job.container.brand or not others):
            # Every orphan of this job is our child, or becomes it when the one above it is killed. One that
            # nothing marks certainly belongs to this job only if there is no other job.
            return {pid for pid in heirs if not others or job.owns(pid)}
        inside = job.container.members() | (set() if others else heirs)
        return find_survivors({JOB_MARKER: job.folder}, job.pid, inside) - others

    def _finish(self, job: SupervisedJob) -> None:
        self.io.leave(job)
        job.close()
        self.left.append(job.container)
        self.jobs.pop(job.token, None)
        result = job.result()
        with contextlib.suppress(OSError):  # Segue gets it through the pipe as well
            write_reserved(f"{job.folder}/exit.json", result)
        self.client.tell(type="ended", token=job.token, exit=result)

    def _tidy(self) -> None:
        """Do what nobody waits for: make what the next job needs, and remove what others have left."""
        if self.spare is None and not self.jobs and self.client.attached and not self.quitting:
            self.spare = Container.create()
            self.spare.enter()
        while self.left:
            self.left.pop().remove()

    def _report(self) -> None:
        # Sizes are sent only when all else is written: a slow Segue gets one line per job, not a flood.
        for job in () if self.client.waiting else self.jobs.values():
            if job.reported != job.sizes:
                job.reported = dict(job.sizes)
                self.client.tell(type="output", token=job.token, **job.sizes)
        self.io.tell()


def _open_backend(supervisor: Supervisor) -> SelectorBackend | ThreadBackend:
    """Choose how to wait for events: with a selector or, where pipes cannot be selected, with threads."""
    if sys.platform != "win32" and not portable():
        from segue.system.supervisor.posix import SelectorBackend

        return SelectorBackend(supervisor)
    from segue.system.supervisor.threads import ThreadBackend

    return ThreadBackend(supervisor)


def become_subreaper() -> bool:
    """Become the parent of orphaned descendants (Linux only), so that they are easily found."""
    if sys.platform != "linux" or portable():
        return False
    try:
        import ctypes

        done: int = ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
        return done == 0 and os.path.exists(f"/proc/self/task/{os.getpid()}/children")
    except (ImportError, OSError, AttributeError):
        return False


def main(arguments: list[str]) -> int:
    """Supervise the jobs of one folder."""
    Supervisor(arguments[0]).run()
    return 0
