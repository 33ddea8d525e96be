"""Outlives Segue: starts agents, keeps what they print and how they end, holds their limits, ends them all.

Segue starts it once per run, by path, so this one file imports little and nothing of Segue's own. Pipes
carry signals (JSON lines on stdin and stdout), files carry data (FOLDER/jobs/TOKEN). Requests are `hello`,
`start`, `end` and `quit`; replies are `started`, `taken`, `output` and `ended`. The `reason` of an end is
null (by itself), `wall`, `idle`, `output`, `disk`, `ended` (asked to) or `not_started`.
"""

# Importing pathlib and typing would cost a third of the start-up time.
# ruff: noqa: PTH105, PTH110, PTH123, PTH208
from __future__ import annotations

import contextlib
import errno
import json
import os
import selectors
import signal
import subprocess
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import IO, Any

JOB_MARKER = "SEGUE_JOB_FOLDER"
"""The variable that every process of a job inherits; its value is the job's folder."""

SUPERVISOR_MARKER = "SEGUE_SUPERVISOR"
"""The variable that names a supervisor. A child shows it until it has become the agent: see `survivors`."""

_CHUNK = 64 * 1024
_PIPE_MAX = 1024 * 1024
_GIVE_UP = 10.0
_LOOK_AGAIN = 0.02
_LAST_RUNG = 2
_MOMENTS = 50
_LONGEST_NAP = 3600.0


def processes(markers: set[bytes]) -> dict[int, tuple[int, int, int, bool]]:
    """Every living process: its parent, group and session, and whether it carries one of the markers."""
    return _linux_processes(markers) if sys.platform == "linux" else _posix_processes(markers)


def _linux_processes(markers: set[bytes]) -> dict[int, tuple[int, int, int, bool]]:
    table = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        stat = _read(f"/proc/{name}/stat")
        fields = stat[stat.rfind(b")") + 2 :].split() or [b"Z"]
        if fields[0] not in (b"Z", b"X"):
            parent, group, session = map(int, fields[1:4])
            kernel = bool(int(fields[6]) & 0x200000)  # PF_KTHREAD
            marked = not kernel and not markers.isdisjoint(_environment(name))
            table[int(name)] = (parent, group, session, marked)
    return table


def _environment(pid: str) -> list[bytes]:
    # While it becomes another program, a process shows no arguments and then, for a moment, no environment.
    looks = 0
    for _ in range(_MOMENTS):
        looks += bool(_read(f"/proc/{pid}/cmdline"))
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                environment = file.read()
        except OSError:
            break  # gone, or somebody else's
        if environment:
            return environment.split(b"\0")
        if looks > 1:
            break
        time.sleep(0.001)
    return []


def _posix_processes(markers: set[bytes]) -> dict[int, tuple[int, int, int, bool]]:
    flags = "-AwwE" if sys.platform == "darwin" else "-Awwe"
    argv = ["ps", flags, "-o", "pid=,ppid=,pgid=,state=,command="]
    listing = subprocess.run(argv, capture_output=True, check=False).stdout
    table = {}
    for line in listing.splitlines():
        pid, parent, group, state, words = (*line.split(None, 4), b"")[:5]
        if not state.startswith(b"Z"):
            table[int(pid)] = (int(parent), int(group), int(group), not markers.isdisjoint(words.split(b" ")))
    return table


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def survivors(markers: Iterable[str], pid: int | None, heirs: Iterable[int] = ()) -> set[int]:
    """The living processes of a job: its group and session, the marked, the heirs, and all descendants.

    A supervisor that is killed while it starts an agent leaves a child that is still its own image and
    becomes the agent a moment later; only the supervisor's own marker gives that child away.
    """
    table = processes({marker.encode() for marker in markers})
    found = {p for p, (_, group, session, marked) in table.items() if marked or pid in (p, group, session)}
    found |= set(heirs)
    more = found
    while more:
        more = {p for p, (parent, *_) in table.items() if parent in more} - found
        found |= more
    return found - {os.getpid()}


def send_signal(send: Callable[[int, int], None], pid: int, number: int) -> None:
    """Signal a process (os.kill) or a group (os.killpg) that may be gone already."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        send(pid, number)


def write_new(path: str, data: dict[str, Any]) -> None:
    """Write a small JSON file that must not exist yet."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        rest = json.dumps(data).encode()
        while rest:
            rest = rest[os.write(fd, rest) :]
    finally:
        os.close(fd)


def write_whole(path: str, data: dict[str, Any]) -> None:
    """Write a small JSON file so that a reader sees all of it or nothing."""
    new = f"{path}.{os.getpid()}"
    write_new(new, data)
    os.replace(new, path)


class Job:
    """One agent: its process, its spool, its limits, and how far up the interrupt ladder it is."""

    def __init__(self, request: dict[str, Any], folder: str) -> None:
        self.token: str = request["token"]
        self.folder = folder
        self.wall: float = request["wall"]
        self.idle: float = request["idle"]
        self.grace: float = request["grace"]
        self.room: int = request["output_bytes"]
        self.started = time.time()
        self.began = self.heard = time.monotonic()
        self.process: subprocess.Popen[bytes] | None = None
        self.pid: int | None = None
        self.pipes: dict[str, IO[bytes]] = {}
        self.spools: dict[str, int] = {}
        self.sizes = {"out": 0, "err": 0}
        self.told = dict(self.sizes)
        self.full = False
        self.exit: int | None = None
        self.ended_at: float | None = None
        self.killed_at: float | None = None
        self.reason: str | None = None
        self.message = ""
        self.rung = 0
        self.due_at = 0.0
        self.inherits = False

    def spawn(self, request: dict[str, Any]) -> None:
        """Start the agent with the prompt file as its stdin, in a session of its own."""
        for name in self.sizes:
            self.spools[name] = os.open(f"{self.folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(f"{self.folder}/prompt", "rb") as prompt:
            self.process = subprocess.Popen(
                request["argv"],
                cwd=request["cwd"],
                env={**request["env"], "SEGUE_JOB": self.token, JOB_MARKER: self.folder},
                stdin=prompt,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        assert self.process.stdout
        assert self.process.stderr
        self.pid = self.process.pid
        self.pipes = {"out": self.process.stdout, "err": self.process.stderr}
        for pipe in self.pipes.values():
            os.set_blocking(pipe.fileno(), False)

    def take(self, name: str) -> int | None:
        """Move what is readable now from the pipe to the spool: bytes moved, 0 at its end, None for later."""
        try:
            data = os.read(self.pipes[name].fileno(), _CHUNK)
        except BlockingIOError:
            return None
        self.heard = time.monotonic()
        self._keep(name, data)
        return len(data)

    def _keep(self, name: str, data: bytes) -> None:
        # Beyond a limit the pipe is still emptied: an agent that blocks on it could not obey the ladder.
        rest = b"" if self.full else data[: self.room]
        try:
            while rest:
                written = os.write(self.spools[name], rest)
                self.sizes[name] += written
                rest = rest[written:]
        except OSError as error:
            self.full = True
            self.end("disk", f"its output could not be written: {error.strerror}")
        self.room -= len(data)
        if self.room < 0 and not self.full:
            self.full = True
            self.end("output", f"it printed more than {sum(self.sizes.values())} bytes")

    def drain(self) -> None:
        """Take what the agent left in its pipes; never wait for an end that a grandchild holds open."""
        for name in self.pipes:
            moved = 0
            # A pipe holds no more than this, so more was written after the agent's exit.
            while moved < _PIPE_MAX and (count := self.take(name)):
                moved += count

    def end(self, reason: str, message: str) -> None:
        """Begin to climb the ladder, unless it is being climbed."""
        if self.reason is None:
            self.reason, self.message = reason, message
            self.due_at = time.monotonic() if self.exit is None else self.due_at

    def due(self) -> float:
        """When this job wants to be looked at next."""
        if self.exit is not None or self.reason is not None:
            return self.due_at
        return min(self.began + self.wall, self.heard + self.idle)

    def check_limits(self, now: float) -> None:
        """Begin to end an agent that has had its time."""
        if now >= self.began + self.wall:
            self.end("wall", f"it ran longer than {self.wall:g} s")
        elif now >= self.heard + self.idle:
            self.end("idle", f"it printed nothing for {self.idle:g} s")

    def climb(self) -> None:
        """Ask the agent, then its whole group, with a wait after each; what follows is being killed."""
        assert self.pid is not None
        self.rung += 1
        if self.rung == 1:
            send_signal(os.kill, self.pid, signal.SIGINT)
        else:
            send_signal(os.killpg, self.pid, signal.SIGTERM)
        self.due_at = time.monotonic() + self.grace

    def exited(self, code: int) -> None:
        """Note the exit code, kill the group at once, and take the last output."""
        assert self.pid is not None
        assert self.process is not None
        self.exit = self.process.returncode = code
        self.ended_at = self.due_at = time.monotonic()
        send_signal(os.killpg, self.pid, signal.SIGKILL)
        self.drain()
        self.close()

    def result(self) -> dict[str, Any]:
        """What exit.json says."""
        code = self.exit
        return {
            "exit_code": code if code is not None and code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None,
            "reason": self.reason,
            "message": self.message,
            "pid": self.pid,
            "sizes": self.sizes,
            "started": self.started,
            "ended": time.time(),
            "duration": (self.ended_at or time.monotonic()) - self.began,
        }

    def close(self) -> None:
        """Give back every descriptor."""
        for pipe in self.pipes.values():
            pipe.close()
        for fd in self.spools.values():
            os.close(fd)
        self.pipes, self.spools = {}, {}


class Client:
    """Segue at the other end of two pipes: what it asks, and what it is told without ever waiting for it."""

    def __init__(self) -> None:
        self.attached = True
        self.waiting = b""
        self._asked = b""
        os.set_blocking(0, False)
        os.set_blocking(1, False)

    def requests(self) -> list[dict[str, Any]]:
        """The requests that have arrived in full; a cut one at the end of the stream was never made."""
        try:
            data = os.read(0, _CHUNK)
        except BlockingIOError:
            return []
        self.attached = bool(data)
        *lines, self._asked = (self._asked + data).split(b"\n")
        return [json.loads(line) for line in lines]

    def tell(self, **reply: Any) -> None:
        """Put a reply in line."""
        if self.attached:
            self.waiting += json.dumps(reply).encode() + b"\n"

    def flush(self) -> None:
        """Write what the pipe takes now."""
        try:
            while self.waiting:
                self.waiting = self.waiting[os.write(1, self.waiting) :]
        except BlockingIOError:
            pass
        except OSError:
            self.waiting = b""


class Supervisor:
    """The loop: listens to Segue, to the agents and to signals, and looks at each job when it is due."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.name = ""
        self.marker = os.environ.get(SUPERVISOR_MARKER, "")
        self.jobs: dict[str, Job] = {}
        self.client = Client()
        self.quitting = False
        self.subreaper = False
        self.selector = selectors.DefaultSelector()
        self.selector.register(0, selectors.EVENT_READ, self._hear_client)
        wake, wakeup = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(wakeup, False)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        # Handlers and not SIG_IGN, which the agents would inherit.
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        self.selector.register(wake, selectors.EVENT_READ, lambda: self._hear_signals(wake))

    def run(self) -> None:
        """Work until there is nothing left to do and nobody left to ask for more."""
        while self.jobs or (self.client.attached and not self.quitting):
            due = min((job.due() for job in self.jobs.values()), default=None)
            timeout = None if due is None else min(_LONGEST_NAP, max(0.0, due - time.monotonic()))
            for key, _ in self.selector.select(timeout):
                key.data()
            now = time.monotonic()
            for job in [job for job in self.jobs.values() if job.due() <= now]:
                self._look_after(job, now)
            self._report()

    def _hear_client(self) -> None:
        for request in self.client.requests():
            self._obey(request)
        if not self.client.attached:
            self.selector.unregister(0)

    def _obey(self, request: dict[str, Any]) -> None:
        kind = request["type"]
        if kind == "hello":
            self.name = request["name"]
        elif kind == "start" and not self.quitting:
            self._start(request)
        elif kind == "end" and request["token"] in self.jobs:
            self.jobs[request["token"]].end("ended", "it was asked to end")
        elif kind == "quit":
            self._quit()

    def _quit(self) -> None:
        self.quitting = True
        for job in self.jobs.values():
            job.end("ended", "it was asked to end")

    def _hear_signals(self, wake: int) -> None:
        numbers = os.read(wake, _CHUNK)
        if signal.SIGTERM in numbers or signal.SIGINT in numbers:
            self._quit()
        self._reap()

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                for job in [job for job in self.jobs.values() if job.pid == pid]:
                    self._unwatch(job)
                    job.exited(os.waitstatus_to_exitcode(status))

    def _start(self, request: dict[str, Any]) -> None:
        token = request["token"]
        job = Job(request, f"{self.folder}/jobs/{token}")
        facts = {"supervisor": self.name, "marker": self.marker, "started": job.started, "grace": job.grace}
        try:
            # Whoever creates this file starts the job; nobody can start it again, whatever happens next.
            write_new(f"{job.folder}/claim.json", facts)
            job.spawn(request)
            write_whole(f"{job.folder}/job.json", {**facts, "child": self._name_of(job.pid)})
        except FileExistsError:
            self.client.tell(type="taken", token=token)
            return
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self._not_started(job, error)
            return
        self._watch(job)

    def _not_started(self, job: Job, error: Exception) -> None:
        full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)
        job.end("disk" if full or job.pid else "not_started", f"{type(error).__name__}: {error}")
        if job.pid is None:
            self._finish(job)
        else:
            self._watch(job)

    def _watch(self, job: Job) -> None:
        self.jobs[job.token] = job
        for name, pipe in job.pipes.items():
            self.selector.register(pipe, selectors.EVENT_READ, lambda name=name: self._hear_job(job, name))
        job.inherits = self.subreaper
        self.client.tell(type="started", token=job.token, pid=job.pid)
        if not self.subreaper:
            self.subreaper = become_subreaper()

    def _name_of(self, pid: int | None) -> str:
        stat = _read(f"/proc/{pid}/stat")
        start = stat[stat.rfind(b")") + 2 :].split()[19].decode() if stat else "-"
        return "/".join((*self.name.split("/")[:2], str(pid), start))

    def _unwatch(self, job: Job) -> None:
        for pipe in job.pipes.values():
            self.selector.unregister(pipe)

    def _hear_job(self, job: Job, name: str) -> None:
        if name in job.pipes and job.take(name) == 0:
            pipe = job.pipes.pop(name)
            self.selector.unregister(pipe)
            pipe.close()

    def _look_after(self, job: Job, now: float) -> None:
        if job.exit is not None or job.rung == _LAST_RUNG:
            self._kill(job, now)
        elif job.reason is not None:
            job.climb()
        else:
            job.check_limits(now)

    def _kill(self, job: Job, now: float) -> None:
        """Kill what is left of a job, again and again until there is nothing left."""
        self._reap()
        left = self._survivors(job)
        for pid in left:
            send_signal(os.kill, pid, signal.SIGKILL)
        job.killed_at = job.killed_at or now
        job.due_at = now + _LOOK_AGAIN
        if left and now > job.killed_at + _GIVE_UP:
            job.message += f"; {len(left)} of its processes could not be killed"
            self._finish(job)
        elif not left and job.exit is not None:
            self._finish(job)

    def _survivors(self, job: Job) -> set[int]:
        others = {other.pid for other in self.jobs.values() if other is not job}
        heirs = {int(pid) for pid in _read(f"/proc/self/task/{os.getpid()}/children").split()} - others
        if job.inherits and job.exit is not None and not heirs:
            return set()  # every orphan of this job would have become a child of ours
        # An orphan without a marker belongs to this job for sure only when there is no other one.
        return survivors([f"{JOB_MARKER}={job.folder}"], job.pid, () if others else heirs) - others

    def _finish(self, job: Job) -> None:
        self._unwatch(job)
        job.close()
        self.jobs.pop(job.token, None)
        result = job.result()
        with contextlib.suppress(OSError):  # Segue hears it all the same
            write_whole(f"{job.folder}/exit.json", result)
        self.client.tell(type="ended", token=job.token, exit=result)

    def _report(self) -> None:
        # Sizes are told only when all else is written: a slow Segue gets one line per job, not a flood.
        for job in () if self.client.waiting else self.jobs.values():
            if job.told != job.sizes:
                job.told = dict(job.sizes)
                self.client.tell(type="output", token=job.token, **job.sizes)
        self.client.flush()
        if self.client.waiting and 1 not in self.selector.get_map():
            self.selector.register(1, selectors.EVENT_WRITE, self._flushed)

    def _flushed(self) -> None:
        self.client.flush()
        if not self.client.waiting:
            self.selector.unregister(1)


def become_subreaper() -> bool:
    """Have orphaned descendants come back to this process (Linux only), so that they are easily found."""
    if sys.platform != "linux":
        return False
    try:
        import ctypes  # takes a while, so only once the first agent is at work

        done: int = ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
        return done == 0 and os.path.exists(f"/proc/self/task/{os.getpid()}/children")
    except (ImportError, OSError, AttributeError):
        return False


def main(arguments: list[str]) -> int:
    """Supervise the jobs of one folder."""
    Supervisor(arguments[0]).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
