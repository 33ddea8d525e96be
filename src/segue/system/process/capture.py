"""Run short local tools such as git and capture their output."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct

from segue.domain.errors import ToolMissing
from segue.system import programs
from segue.system.process.group import kill_group, own_group, startable
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


_PROBED_BYTES = 64 * 1024
_SIGKILL = 9
_LONGEST_SAYING = 2000
_LAST_WORDS = 2.0
"""Seconds that the end of a pipe may take after the tool's exit."""
PROBE_SECONDS = 60.0
"""How long a program may take to answer a short question: a busy machine is slow, and most answer at once."""


class Captured(Struct, frozen=True):
    """How a tool ended, and what it printed; a negative code is the signal that ended it.

    Of a stream that is too long the beginning and the end are kept, with a line between that says so.
    """

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


class HeadAndTail:
    """The beginning and the end of a stream, in bounded memory."""

    def __init__(self, limit: int) -> None:
        self._head_size, self._tail_size = limit - limit // 2, limit // 2
        self._head, self._tail = bytearray(), bytearray()
        self._dropped = 0

    def add(self, data: bytes) -> None:
        """Take what was read."""
        room = self._head_size - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        if len(self._tail) > 2 * self._tail_size:
            self._shorten()

    def _shorten(self) -> None:
        excess = max(0, len(self._tail) - self._tail_size)
        del self._tail[:excess]
        self._dropped += excess

    def content(self) -> bytes:
        """Return what is kept."""
        self._shorten()
        gap = f"\n[{self._dropped} bytes are left out here]\n".encode() if self._dropped else b""
        return bytes(self._head + gap + self._tail)


class _Collector(asyncio.SubprocessProtocol):
    """Collects the output of a tool, and tells its exit from the end of its pipes."""

    def __init__(self, limit: int) -> None:
        loop = asyncio.get_running_loop()
        self.exited, self.closed = loop.create_future(), loop.create_future()
        self._kept = {1: HeadAndTail(limit), 2: HeadAndTail(limit)}

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._kept[fd].add(data)

    def process_exited(self) -> None:
        self.exited.set_result(None)

    def connection_lost(self, _error: Exception | None) -> None:
        self.closed.set_result(None)

    def output(self) -> tuple[bytes, bytes]:
        """Return what was printed to both streams."""
        return self._kept[1].content(), self._kept[2].content()


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
    transport, tool = await _start(argv, cwd, child_environment() if env is None else dict(env), stdin, limit)
    pid = transport.get_pid()
    # Never the arguments: prompts, addresses and keys may be among them.
    _log.debug("%s started, pid %d", Path(argv[0]).name, pid)
    try:
        async with asyncio.timeout(timeout):
            await asyncio.shield(tool.exited)
    except TimeoutError:
        kill_group(pid)
        await tool.exited
        message = f"{argv[0]} did not end within {timeout:g} s"
        _log.warning("pid %d was killed: %s", pid, message)
        raise TookTooLong(message, *tool.output()) from None
    finally:
        kill_group(pid)  # also what it has left in its group
        await asyncio.shield(tool.exited)
        # A grandchild may keep a pipe open.
        await asyncio.wait({tool.closed}, timeout=_LAST_WORDS)
        transport.close()
    code = transport.get_returncode()
    assert code is not None
    _log.debug("%s ended, pid %d: exit code %d, %.2f s", argv[0], pid, code, time.monotonic() - began)
    return Captured(code, *tool.output())


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
        question = capture(argv, cwd or Path.cwd(), env, timeout, limit=_PROBED_BYTES)
        try:
            return thread.submit(asyncio.run, question).result()
        except TookTooLong as late:
            return Captured(-_SIGKILL, late.out, late.err, in_time=False)
        except (OSError, ValueError, ToolMissing):
            return None


async def _start(
    argv: Sequence[str], cwd: Path, env: dict[str, str], stdin: bytes, limit: int
) -> tuple[asyncio.SubprocessTransport, _Collector]:
    command = startable(argv, env)
    if command[0] != "git":
        note_program()
    try:
        transport, tool = await asyncio.get_running_loop().subprocess_exec(
            lambda: _Collector(limit),
            *command,
            executable=_locate(command[0], env),
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            **own_group(),
        )
    except FileNotFoundError as error:
        if error.filename not in (command[0], None) or not cwd.is_dir():
            raise
        raise ToolMissing(
            f"{argv[0]} cannot be found", hint=f"Install {argv[0]} or put its folder on PATH."
        ) from error
    if stdin:
        pipe = transport.get_pipe_transport(0)
        assert isinstance(pipe, asyncio.WriteTransport)
        pipe.write(stdin)
        pipe.write_eof()
    return transport, tool


def _locate(name: str, env: Mapping[str, str]) -> str | None:
    """Return where a program is that Segue starts by its name; None: it has a path, or runs for an agent."""
    if os.path.dirname(name):  # noqa: PTH120 - asked for every git
        return None
    is_outside = name == "git" or env.get("PATH") == programs.outside_path()
    return programs.need(name) if is_outside else None
