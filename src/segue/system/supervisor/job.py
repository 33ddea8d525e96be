"""One agent under a supervisor: its process, output, limits, and how far its ending has got."""

# Importing pathlib would cost a third of the supervisor's start-up time.
# ruff: noqa: PTH123, PTH208
from __future__ import annotations

import binascii
import contextlib
import os
import subprocess
import time

from segue.system.identity import JOB_MARKER, find_inner, group_of, is_marked
from segue.system.process.group import Tree, interrupt, own_group, startable, terminate_group
from segue.system.process.notes import BINARY, inbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any

    from segue.system.process.cgroup import Container

LOOK_SECONDS = 0.2
"""How often it is looked whether there is something to tell an agent."""
SILENT_SECONDS = 10
"""A program that has printed nothing for so long may wait for the end of its stdin, as a wrapper does."""
LAST_RUNG = 2
_BY_SYSTEM = frozenset((4, 6, 7, 8, 9, 11))
"""Signals that nobody sends for politeness: crashes, and kills for lack of memory."""
HELD_MAX = 128 * 1024
"""Bytes of output that are kept in memory while they cannot be written: the end of what it has to say."""
RESULT_MAX = 2 * HELD_MAX
"""Bytes that `exit.json` takes at most."""
STARTS = 5
"""How often a program is started that the sandbox gives up before it begins."""
_SOMETHING_IS_GONE = b"bwrap: Can't bind mount /oldroot"
_COMPLAINT_MAX = 4096
PIPE_MAX = 1024 * 1024
"""A pipe cannot contain more than this, so the rest was written after the agent's exit."""


def gave_up(out: bytes, err: bytes, *, so_far: bool = False) -> bool:
    """Return whether this is what bubblewrap says when a file of /tmp vanishes while it shows it.

    The program has not begun then, and starting it once more shows what is left. `so_far`: it may say more.
    """
    said = _SOMETHING_IS_GONE[: len(err)] if so_far else _SOMETHING_IS_GONE
    return not out and len(err) < _COMPLAINT_MAX and err.startswith(said)


class SupervisedJob:
    """One agent and the state of its ending."""

    def __init__(self, request: dict[str, Any], folder: str, container: Container) -> None:
        self.request = request
        self.token: str = request["token"]
        self.folder = folder
        self.wall: float = request["wall"]
        self.idle: float = request["idle"]
        self.grace: float = request["grace"]
        self.room: int = request["output_bytes"]
        self.layers: int = request.get("layers", 0)
        self.turn_end: bytes = request.get("turn_end", "").encode()
        self.starts = 1
        self.started = time.time()
        self.began = self.heard = time.monotonic()
        self.process: subprocess.Popen[bytes] | None = None
        self.pid: int | None = None
        self.tree: Tree | None = None
        self.container = container
        self.stdin: IO[bytes] | None = None
        self.untold = b""
        """What its stdin has not taken yet."""
        self.told = 0
        """The number of the last line that it was told."""
        self.is_done = False
        """Whether it has done what it was told."""
        self.is_idle = False
        """Whether it is told nothing more."""
        self.look_at = float("inf")
        self.printed_last = b""
        self.pipes: dict[str, IO[bytes]] = {}
        self.spools: dict[str, int] = {}
        self.held = {"out": b"", "err": b""}
        self.sizes = {"out": 0, "err": 0}
        self.reported = dict(self.sizes)
        self.full = self.closed = False
        self.exit: int | None = None
        self.ended_at: float | None = None
        self.killed_at: float | None = None
        self.reason: str | None = None
        self.message = ""
        self.rung = 0
        self.due_at = 0.0

    def spawn(self) -> None:
        """Start the agent in a session of its own. Its stdin is the prompt file, or begins with it."""
        request = self.request
        env = {**request["env"], "SEGUE_JOB": self.token, JOB_MARKER: self.folder}
        with open(f"{self.folder}/prompt", "rb") as prompt, self.container.entered():
            self.process = subprocess.Popen(
                startable(request["argv"], env),
                cwd=request["cwd"],
                env=env,
                stdin=subprocess.PIPE if self.turn_end else prompt,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                **own_group(),
            )
            if self.turn_end:
                self.stdin, self.untold = self.process.stdin, prompt.read()
                self.look_at = self.began
        assert self.process.stdout
        assert self.process.stderr
        self.pid = self.process.pid
        self.pipes = {"out": self.process.stdout, "err": self.process.stderr}
        self.tree = Tree(self.process)

    def look(self) -> None:
        """Take what the agent is to be told, in order; nothing more once it is done with all of it."""
        if self.stdin is None:
            return
        folder = inbox(self.folder)
        try:
            numbers = sorted(int(name) for name in os.listdir(folder) if name.isdigit())
        except OSError:
            numbers = []
        for number in numbers:
            if number > self.told:
                with open(f"{folder}/{number}", "rb") as line:
                    self.untold += line.read()
                self.told, self.is_done = number, False
        now = time.monotonic()
        waits = self.heard == self.began and now > self.began + SILENT_SECONDS
        self.is_idle = self.is_done or waits
        self.look_at = float("inf") if self.is_idle else now + LOOK_SECONDS

    def close_stdin(self) -> None:
        """Tell the agent nothing more."""
        self.look_at = float("inf")
        if self.stdin is not None:
            with contextlib.suppress(OSError):
                self.stdin.close()
            self.stdin = None

    def _watch_turn(self, data: bytes) -> None:
        """Notice the end of a turn in what the agent prints."""
        seen = self.printed_last + data
        if self.turn_end in seen:
            self.is_done, self.look_at = True, time.monotonic()
        self.printed_last = seen[1 - len(self.turn_end) :]

    def keep(self, name: str, data: bytes) -> None:
        """Write the agent's output to its file."""
        self.heard = time.monotonic()
        if name == "out" and self.stdin is not None:
            self._watch_turn(data)
        # Beyond a limit the pipe is still emptied: an agent that blocks on it could not end itself.
        self.held[name] += b"" if self.full or self.closed else data[: self.room]
        try:
            while self.held[name] and not (self.full or self.closed or self._may_start_again(so_far=True)):
                written = os.write(self._spool(name), self.held[name])
                self.sizes[name] += written
                self.held[name] = self.held[name][written:]
        except OSError as error:
            if sum(map(len, self.held.values())) > HELD_MAX:
                self.held = {"out": b"", "err": b""}
                self.full = True
                self.end("disk", f"its output could not be written: {error.strerror}")
        self.room -= len(data)
        if self.room < 0 and not self.full:
            self.full = True
            self.end("output", f"it printed more than {sum(self.sizes.values())} bytes")

    def _may_start_again(self, *, so_far: bool) -> bool:
        begun = not self.layers or self.starts == STARTS or any(self.sizes.values())
        return not begun and gave_up(self.held["out"], self.held["err"], so_far=so_far)

    @property
    def never_began(self) -> bool:
        """Whether the sandbox ended before the agent began, and another start may be better."""
        return bool(self.exit) and self.reason is None and self._may_start_again(so_far=False)

    def again(self) -> SupervisedJob:
        """Return the same job, to be started once more."""
        other = SupervisedJob(self.request, self.folder, self.container)
        other.starts = self.starts + 1
        return other

    def _spool(self, name: str) -> int:
        """Return the file for a stream; one that stays silent gets none."""
        if name not in self.spools:
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | BINARY
            self.spools[name] = os.open(f"{self.folder}/{name}", flags, 0o600)
        return self.spools[name]

    def end(self, reason: str, message: str) -> None:
        """Start ending the agent: ask, terminate, kill."""
        if self.reason is None:
            self.reason, self.message = reason, message
            self.due_at = time.monotonic() if self.exit is None else self.due_at

    def due(self) -> float:
        """Return when this job must be looked at next."""
        if self.exit is not None or self.reason is not None:
            return self.due_at
        return min(self.began + self.wall, self.heard + self.idle, self.look_at)

    def check_limits(self, now: float) -> None:
        """Start ending an agent that has reached a time limit."""
        if now >= self.began + self.wall:
            self.end("wall", f"it ran longer than {self.wall:g} s")
        elif now >= self.heard + self.idle:
            self.end("idle", f"it printed nothing for {self.idle:g} s")

    def climb(self) -> None:
        """Interrupt the agent, then terminate its group, each followed by a grace period before the kill."""
        assert self.pid is not None
        self.rung += 1
        agent = find_inner(self.pid, self.layers)
        if self.rung == 1:
            interrupt(agent)
        else:
            terminate_group(group_of(agent) if self.layers else agent)
        self.due_at = time.monotonic() + self.grace

    def note_exit(self, code: int) -> None:
        """Record the exit code and kill the group at once."""
        assert self.tree is not None
        assert self.process is not None
        self.exit = self.process.returncode = code
        self.ended_at = self.due_at = time.monotonic()
        self.tree.kill()

    def owns(self, pid: int) -> bool:
        """Return whether an orphan on Linux comes from this job."""
        return self.container.contains(pid) or is_marked(pid, self.folder, self.pid)

    def result(self) -> dict[str, Any]:
        """Return the content of exit.json."""
        code = self.exit
        if self.layers and code is not None and code - 128 in _BY_SYSTEM:
            code = 128 - code  # the sandbox says by its exit code that a signal ended the agent
        return {
            "exit_code": code if code is not None and code >= 0 else None,
            "signal": -code if code is not None and code < 0 else None,
            "reason": self.reason,
            "message": self.message,
            "pid": self.pid,
            "sizes": self.sizes,
            "unwritten": {name: _as_text(rest) for name, rest in self.held.items() if rest},
            "started": self.started,
            "ended": time.time(),
            "duration": (self.ended_at or time.monotonic()) - self.began,
        }

    def close(self) -> None:
        """Close every descriptor."""
        self.close_stdin()
        for pipe in self.pipes.values():
            pipe.close()
        for fd in self.spools.values():
            os.close(fd)
        self.pipes, self.spools, self.closed = {}, {}, True


def _as_text(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode()
