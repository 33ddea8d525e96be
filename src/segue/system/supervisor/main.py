"""The supervisor of one agent, which outlives Segue: it starts the agent, enforces its limits and ends it.

Segue starts it and sends it one request as JSON on stdin. From then on they share the files in the job's
folder alone: the agent's output goes straight into `out` and `err`, `claim.json` names the supervisor,
`job.json` the agent, `exit.json` says how it ended, and a file `end` asks for its end. The `reason` of an end
is null (by itself), `wall`, `idle`, `output`, `disk`, `ended` (asked to) or `not_started`.
"""

# Importing pathlib, shutil and typing would cost a third of the start-up time.
# ruff: noqa: PTH110, PTH123
from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time

from segue.system.identity import (
    JOB_MARKER,
    children_of,
    find_inner,
    find_survivors,
    group_of,
    identify,
    is_dead,
)
from segue.system.process.group import interrupt, kill, kill_group, own_group, startable, terminate_group
from segue.system.process.notes import claim, reserve, write_reserved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

REFUSED = 64
"""Plus an error number: the exit code if the notes of a job could not be written; nothing was started."""
_LOOK_SECONDS = 0.1
_GIVE_UP = 10.0
_MOMENT = 0.002
_NOTE_BYTES = 4096
_FULL_BYTES = 64 * 1024
_ROOM_BYTES = 128 * 1024
_KEEP_SIZE = 1
_LAST_RUNG = 2
_BY_SYSTEM = frozenset((4, 6, 7, 8, 9, 11))
"""Signals that nobody sends for politeness: crashes, and kills for lack of memory."""


class Supervisor:
    """One agent, its limits, and how far its ending has got."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.folder: str = request["folder"]
        self.started = time.time()
        self.began = self.heard = time.monotonic()
        self.ended = 0.0
        self.process: subprocess.Popen[bytes] | None = None
        self.sizes = (0, 0)
        self.exit: int | None = None
        self.reason: str | None = None
        self.message = ""
        self.rung = 0
        self.due_at = 0.0
        self.asked = False

    def run(self) -> int:
        """Start the agent and stay until nothing of it is left; return the exit code of this process."""
        facts = {"supervisor": identify(os.getpid()), "started": self.started, "grace": self.request["grace"]}
        try:
            # Whoever makes this file starts the job; nobody can start it again, whatever happens next.
            if not claim(f"{self.folder}/claim.json", facts):
                return 0
        except OSError as error:
            return REFUSED + (error.errno or 0)
        try:
            # The disk may be full when it ends, and its end must be known.
            reserve(f"{self.folder}/job.json", _NOTE_BYTES)
            reserve(f"{self.folder}/exit.json", _NOTE_BYTES)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(f"{self.folder}/claim.json")  # noqa: PTH108
            return REFUSED + (error.errno or 0)
        wake = _hear_signals()
        self._start(facts)
        while self.exit is None and self.process is not None:
            self._look(time.monotonic())
            if self.exit is None:
                self._wait(wake)
        self._kill_rest()
        self._record()
        return 0

    def _start(self, facts: dict[str, Any]) -> None:
        request = self.request
        env = {**request["env"], "SEGUE_JOB": request["token"], JOB_MARKER: self.folder}
        try:
            with (
                open(f"{self.folder}/prompt", "rb") as prompt,
                open(f"{self.folder}/out", "ab") as out,
                open(f"{self.folder}/err", "ab") as err,
            ):
                _keep_room(self.folder, self.sizes)
                self.process = subprocess.Popen(
                    startable(request["argv"], env),
                    cwd=request["cwd"],
                    env=env,
                    stdin=prompt,
                    stdout=out,
                    stderr=err,
                    **own_group(),
                )
            child = {**facts, "child": identify(self.process.pid)}
            write_reserved(f"{self.folder}/job.json", child)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self.end("disk" if self.process else "not_started", f"{type(error).__name__}: {error}")

    def end(self, reason: str, message: str) -> None:
        """Start ending the agent: ask, terminate, kill."""
        if self.reason is None:
            self.reason, self.message = reason, message
            self.due_at = time.monotonic()

    def _look(self, now: float) -> None:
        """Notice the agent's end, its limits and what was asked, and do what is due."""
        self._reap()
        if self.exit is not None or self.process is None:
            return
        if self.asked or os.path.exists(f"{self.folder}/end") or _is_orphaned(self.request["tied_to"]):
            self.end("ended", "it was asked to end")
        self._check_limits(now)
        if self.reason is not None and now >= self.due_at:
            self._climb(self.process.pid)

    def _check_limits(self, now: float) -> None:
        request, sizes = self.request, (_size(f"{self.folder}/out"), _size(f"{self.folder}/err"))
        if sizes != self.sizes:
            self.sizes, self.heard = sizes, now
            _keep_room(self.folder, sizes)
        if now >= self.began + request["wall"]:
            self.end("wall", f"it ran longer than {request['wall']:g} s")
        elif now >= self.heard + request["idle"]:
            self.end("idle", f"it printed nothing for {request['idle']:g} s")
        elif sum(sizes) > request["output_bytes"]:
            self.end("output", f"it printed more than {request['output_bytes']} bytes")

    def _climb(self, pid: int) -> None:
        """Interrupt the agent, then terminate its group, then kill it, with a grace period between."""
        self.rung += 1
        self.due_at = time.monotonic() + float(self.request["grace"])
        layers = self.request["layers"]
        agent = find_inner(pid, layers)
        if self.rung == 1:
            interrupt(agent)
        elif self.rung == _LAST_RUNG:
            terminate_group(group_of(agent) if layers else agent)
        else:
            kill_group(pid)
            for other in self._survivors():
                kill(other)

    def _kill_rest(self) -> None:
        """Kill what the agent has left, repeatedly until nothing is left."""
        self.ended = time.monotonic()
        if self.process is None:
            return
        kill_group(self.process.pid)
        while left := self._survivors():
            if time.monotonic() > self.ended + _GIVE_UP:
                self.message += f"; {len(left)} of its processes could not be killed"
                return
            for pid in left:
                kill(pid)
            time.sleep(_MOMENT)

    def _survivors(self) -> set[int]:
        """Return what is left of the job: where orphans become our children, those are all of it."""
        assert self.process is not None
        self._reap()
        if self.request["inherits"]:
            return set(children_of(os.getpid()))
        return find_survivors(self.folder, self.process.pid)

    def _reap(self) -> None:
        """Note the agent's end, and forget orphans that have ended."""
        assert self.process is not None
        if sys.platform == "win32":
            self.exit = self.process.poll()
            return
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if found[0] == self.process.pid:
                    self.exit = self.process.returncode = os.waitstatus_to_exitcode(found[1])

    def _wait(self, wake: int) -> None:
        """Wait for the end of a child, a request to end, or a moment."""
        assert self.process is not None
        if sys.platform == "win32":
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_LOOK_SECONDS)
        elif select.select([wake], [], [], _LOOK_SECONDS)[0]:
            numbers = os.read(wake, 4096)
            self.asked = self.asked or signal.SIGTERM in numbers or signal.SIGINT in numbers

    def _record(self) -> None:
        """Write how it ended, into the room that was reserved for that."""
        for pause in (0.0, 0.05, 0.5, 2.0):  # a call may fail once
            time.sleep(pause)
            with contextlib.suppress(OSError):
                write_reserved(f"{self.folder}/exit.json", self._result())
                return

    def _result(self) -> dict[str, Any]:
        code = self.exit
        if self.request["layers"] and code is not None and code - 128 in _BY_SYSTEM:
            code = 128 - code  # the sandbox says by its exit code that a signal ended the agent
        if code and self.reason is None and _is_full(self.folder):
            self.reason, self.message = "disk", "the disk is full"
        return {
            "exit_code": code if code is not None and code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None,
            "reason": self.reason,
            "message": self.message,
            "pid": self.process.pid if self.process else None,
            "duration": self.ended - self.began,
        }


def _size(path: str) -> int:
    return os.stat(path).st_size  # noqa: PTH116


def _keep_room(folder: str, sizes: tuple[int, int]) -> None:
    """Take room on the disk for the next output, where Linux can, so that a full disk loses no last words."""
    if sys.platform != "linux":
        return
    import ctypes

    for name, size in zip(("out", "err"), sizes, strict=True):
        with contextlib.suppress(OSError), open(f"{folder}/{name}", "ab") as file:
            room = (ctypes.c_long(size), ctypes.c_long(_ROOM_BYTES))
            ctypes.CDLL(None).fallocate(file.fileno(), _KEEP_SIZE, *room)


def _is_full(folder: str) -> bool:
    if sys.platform == "win32":
        return False
    found = os.statvfs(folder)
    free = found.f_bavail if os.geteuid() else found.f_bfree
    return found.f_blocks > 0 and free * found.f_frsize < _FULL_BYTES


def _is_orphaned(segue: str | None) -> bool:
    """Return whether the agent may not outlive a Segue that is dead."""
    return segue is not None and is_dead(segue)


def _hear_signals() -> int:
    """Have signals wake this process; return what to wait for."""
    if sys.platform == "win32":
        return -1
    wake, wakeup = os.pipe()
    os.set_blocking(wakeup, False)
    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    # Handlers and not SIG_IGN, which the agent would inherit.
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    return wake


def become_subreaper() -> bool:
    """Become the parent of orphaned descendants (Linux only), so that none of them gets away."""
    if sys.platform != "linux":
        return False
    try:
        import ctypes

        done: int = ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
        return done == 0 and os.path.exists(f"/proc/self/task/{os.getpid()}/children")
    except (ImportError, OSError, AttributeError):
        return False


def main(_arguments: list[str]) -> int:
    """Wait for a request, and supervise its agent; without one there is nothing to do."""
    inherits = become_subreaper()
    line = sys.stdin.buffer.readline()
    if not line.endswith(b"\n"):
        return 0  # Segue needs no other agent, or is gone
    sys.stdin.close()
    code = Supervisor({**json.loads(line), "inherits": inherits}).run()
    os._exit(code)  # there is nothing to tidy up, and Segue waits for it
