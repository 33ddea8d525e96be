"""Run short local tools such as git and capture their output."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from threading import Thread
from typing import IO

from msgspec import Struct

from segue.domain.errors import ToolMissing
from segue.system import programs
from segue.system.process.group import Tree, own_group, portable, startable
from segue.system.reach import cut_variables

_log = logging.getLogger(__name__)
# Whoever uses Segue says where its log goes; without that, Python would print warnings.
logging.getLogger("segue").addHandler(logging.NullHandler())

_NAMES = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TEMP", "TMP"),
        *("TERM", "COLORTERM", "NO_COLOR", "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
        *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
        *("SSH_AUTH_SOCK", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME"),
        *("GIT_COMMITTER_EMAIL", "GIT_SSL_CAINFO", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"),
        *("GIT_CONFIG_NOSYSTEM", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "APPDATA"),
        *("LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "USERPROFILE", "USERNAME"),
        *("USERDOMAIN", "HOMEDRIVE", "HOMEPATH", "NUMBER_OF_PROCESSORS", "PROCESSOR_ARCHITECTURE", "OS"),
    )
)
_PREFIXES = ("LC_", "XDG_")


def child_environment(passed: Iterable[str] = (), extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a program that Segue starts outside of the sandbox.

    It has the allowed variables, those named in `passed`, and `extra`; nothing in it leads to what agents can
    write.
    """
    names = {*passed}
    kept = {name: value for name, value in os.environ.items() if name in names or _allowed(name)}
    return {**cut_variables(kept, programs.reach()), **(extra or {})}


def inside_environment(passed: Iterable[str] = (), extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of an agent or a check: the same variables, as the user has set them."""
    names, whole = {*passed}, programs.whole_environment()
    kept = {name: value for name, value in whole.items() if name in names or _allowed(name)}
    return {**kept, **(extra or {})}


@cache
def _allowed(name: str) -> bool:
    upper = name.upper()
    return upper in _NAMES or upper.startswith(_PREFIXES)


_started = [0]


def note_program() -> None:
    """Count a program other than git, before it is started."""
    _started[0] += 1


def programs_started() -> int:
    """Return how many programs other than git this process has started: any of them may change files."""
    return _started[0]


_KEPT_BYTES = _CHUNK = 64 * 1024
_SIGKILL = 9
_LONGEST_SAYING = 2000
_LAST_WORDS = 2.0
"""Seconds that the end of a pipe may take after the tool's exit."""
PROBE_SECONDS = 60.0
"""How long a program may take to answer a short question: a busy machine is slow, and most answer at once."""


class Captured(Struct, frozen=True):
    """How a tool ended, and the beginning of its output; a negative code is the signal that ended it."""

    exit_code: int
    out: bytes
    err: bytes
    in_time: bool = True
    """False if it was killed because it took too long."""

    @property
    def said(self) -> str:
        """The end of what it printed about a failure, for a message; never empty."""
        text = (self.err or self.out).decode("utf-8", "replace").strip()
        return text[-_LONGEST_SAYING:] or f"exit code {self.exit_code}"


class TookTooLong(TimeoutError):
    """A tool did not end in time; what it printed until then is kept."""

    def __init__(self, message: str, out: bytes, err: bytes) -> None:
        super().__init__(message)
        self.out, self.err = out, err


class Pump:
    """Feeds a tool and collects its output in the event loop; for systems that report a process's end."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes, limit: int, end: int) -> None:
        """`end` is a descriptor that becomes readable when the process ends."""
        self._process, self._unsent, self._limit, self._end = process, memoryview(stdin), limit, end
        self.kill = Tree(process).kill
        self.kept = {"out": bytearray(), "err": bytearray()}
        self._loop = loop = asyncio.get_running_loop()
        self._done = loop.create_future()
        self._pipes: dict[IO[bytes], bytearray] = {}
        self._last_words: asyncio.TimerHandle | None = None
        loop.add_reader(end, self._note_exit)
        for pipe, kept in ((process.stdout, self.kept["out"]), (process.stderr, self.kept["err"])):
            assert pipe
            self._pipes[pipe] = kept
            _never_wait(pipe)
            loop.add_reader(pipe.fileno(), self._take, pipe, kept)
        if process.stdin:
            _never_wait(process.stdin)
            loop.add_writer(process.stdin.fileno(), self._feed, process.stdin)

    async def run(self) -> None:
        """Return when the tool has exited and was read, even if a grandchild keeps its pipes open."""
        await asyncio.shield(self._done)

    def _note_exit(self) -> None:
        self._loop.remove_reader(self._end)
        os.close(self._end)
        self._process.wait()
        self.kill()
        if self._process.stdin and not self._process.stdin.closed:
            self._stop_feeding(self._process.stdin)
        if self._pipes:
            self._last_words = self._loop.call_later(_LAST_WORDS, self._stop_reading)
        else:
            self._finish()

    def _take(self, pipe: IO[bytes], kept: bytearray) -> bool:
        """Read what is there; return whether there was something."""
        try:
            data = os.read(pipe.fileno(), _CHUNK)
        except BlockingIOError:
            return False
        except OSError:
            data = b""
        kept += data[: self._limit - len(kept)]
        if not data:
            self._close(pipe)
        return bool(data)

    def _close(self, pipe: IO[bytes]) -> None:
        self._loop.remove_reader(pipe.fileno())
        pipe.close()
        del self._pipes[pipe]
        if not self._pipes and self._process.returncode is not None:
            self._finish()

    def _stop_reading(self) -> None:
        for pipe, kept in list(self._pipes.items()):
            # What the tool has printed is in the pipe, also if this process was not scheduled for so long.
            while pipe in self._pipes and len(kept) < self._limit and self._take(pipe, kept):
                pass
            if pipe in self._pipes:
                self._close(pipe)

    def _finish(self) -> None:
        if self._last_words is not None:
            self._last_words.cancel()
        self._done.set_result(None)

    def _feed(self, pipe: IO[bytes]) -> None:
        try:
            self._unsent = self._unsent[os.write(pipe.fileno(), self._unsent[:_CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:
            self._unsent = self._unsent[:0]
        if not self._unsent:
            self._stop_feeding(pipe)

    def _stop_feeding(self, pipe: IO[bytes]) -> None:
        self._loop.remove_writer(pipe.fileno())
        pipe.close()


class ThreadPump:
    """Does the same with a thread for each pipe: Windows cannot wait for several."""

    def __init__(self, process: subprocess.Popen[bytes], stdin: bytes, limit: int) -> None:
        self._process, self._stdin, self._limit = process, stdin, limit
        self.kill = Tree(process).kill
        self.kept = {"out": bytearray(), "err": bytearray()}
        self._done = asyncio.get_running_loop().run_in_executor(None, self._run)

    async def run(self) -> None:
        """Return when the tool has exited and was read, even if a grandchild keeps its pipes open."""
        await asyncio.shield(self._done)

    def _run(self) -> None:
        process = self._process
        threads = [
            *([Thread(target=self._feed, args=(process.stdin,), daemon=True)] if process.stdin else []),
            Thread(target=self._take, args=(process.stdout, self.kept["out"]), daemon=True),
            Thread(target=self._take, args=(process.stderr, self.kept["err"]), daemon=True),
        ]
        for thread in threads:
            thread.start()
        process.wait()
        self.kill()
        deadline = time.monotonic() + _LAST_WORDS
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _feed(self, pipe: IO[bytes]) -> None:
        unsent = memoryview(self._stdin)
        with contextlib.suppress(OSError), pipe:
            while unsent:
                unsent = unsent[os.write(pipe.fileno(), unsent[:_CHUNK]) :]

    def _take(self, pipe: IO[bytes], kept: bytearray) -> None:
        with contextlib.suppress(OSError), pipe:
            while data := pipe.read(_CHUNK):
                kept += data[: self._limit - len(kept)]


def _open_pump(process: subprocess.Popen[bytes], stdin: bytes, limit: int) -> Pump | ThreadPump:
    """Choose how to follow a tool: threads cost more than a small git does."""
    if sys.platform == "linux" and not portable():
        with contextlib.suppress(OSError):  # an old kernel, or a sandbox
            return Pump(process, stdin, limit, os.pidfd_open(process.pid))
    return ThreadPump(process, stdin, limit)


async def capture(
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str] | None = None,
    timeout: float = 60.0,
    stdin: bytes = b"",
    limit: int = 64 * 1024**2,
) -> Captured:
    """Run a tool to its end in a process group of its own; at most `limit` bytes of each stream are kept.

    Raises ToolMissing when there is no such program and TookTooLong when it took too long; on that and on
    cancellation the group is killed before this returns.
    """
    began = time.monotonic()
    process = _start(argv, cwd, child_environment() if env is None else dict(env), bool(stdin))
    # Never the arguments: prompts, addresses and keys may be among them.
    _log.debug("%s started, pid %d", Path(argv[0]).name, process.pid)
    pump = _open_pump(process, stdin, limit)
    try:
        async with asyncio.timeout(timeout):
            await pump.run()
    except (TimeoutError, asyncio.CancelledError) as error:
        pump.kill()
        await pump.run()
        if isinstance(error, TimeoutError):
            said = f"{argv[0]} did not end within {timeout:g} s"
            _log.warning("pid %d was killed: %s", process.pid, said)
            raise TookTooLong(said, bytes(pump.kept["out"]), bytes(pump.kept["err"])) from None
        raise
    took = time.monotonic() - began
    _log.debug("%s ended, pid %d: exit code %d, %.2f s", argv[0], process.pid, process.returncode, took)
    return Captured(process.returncode, bytes(pump.kept["out"]), bytes(pump.kept["err"]))


def probe(
    argv: Sequence[str],
    timeout: float = PROBE_SECONDS,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Captured | None:
    """Ask a program a short question, such as its version, from synchronous code; None if it cannot start."""
    from concurrent.futures import ThreadPoolExecutor

    # In a thread with a loop of its own, because the caller's thread may already run one.
    with ThreadPoolExecutor(1) as thread:
        question = capture(argv, cwd or Path.cwd(), env, timeout, limit=_KEPT_BYTES)
        try:
            return thread.submit(asyncio.run, question).result()
        except TookTooLong as late:
            return Captured(-_SIGKILL, late.out, late.err, in_time=False)
        except (OSError, ValueError, ToolMissing):
            return None


def _start(argv: Sequence[str], cwd: Path, env: dict[str, str], is_fed: bool) -> subprocess.Popen[bytes]:
    command, pipe = startable(argv, env), subprocess.PIPE
    if command[0] != "git":
        note_program()
    try:
        return subprocess.Popen(
            command,
            executable=_locate(command[0], env),
            cwd=cwd,
            env=env,
            stdin=pipe if is_fed else subprocess.DEVNULL,
            stdout=pipe,
            stderr=pipe,
            bufsize=0,
            **own_group(),
        )
    except FileNotFoundError as error:
        if error.filename not in (command[0], None) or not cwd.is_dir():
            raise
        raise ToolMissing(
            f"{argv[0]} cannot be found", hint=f"Install {argv[0]} or put its folder on PATH."
        ) from error


def _locate(name: str, env: Mapping[str, str]) -> str | None:
    """Return where a program is that Segue starts by its name; None: it has a path, or runs for an agent."""
    if os.path.dirname(name):  # noqa: PTH120 - asked for every git
        return None
    is_outside = name == "git" or env.get("PATH") == programs.outside_path()
    return programs.need(name) if is_outside else None


def _never_wait(pipe: IO[bytes]) -> None:
    """Let reads and writes of a pipe return at once."""
    if sys.platform != "win32":
        os.set_blocking(pipe.fileno(), False)
