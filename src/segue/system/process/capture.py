"""Run short local tools such as git and capture their output."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from segue.domain.errors import ToolMissing
from segue.system.process.environment import child_environment
from segue.system.process.group import own_group, portable, startable

_KEPT_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Captured:
    """How a tool ended, and the beginning of its output; a negative code is the signal that ended it."""

    exit_code: int
    out: bytes
    err: bytes


class Pump(Protocol):
    """Feeds a tool and collects its output: see `pump_posix` and `pump_threads`."""

    kept: dict[str, bytearray]
    timed_out: bool

    def run(self, timeout: float) -> None:
        """Work in a thread until the tool has exited."""

    def kill(self) -> None:
        """Kill the tool with all its children; harmless when it is gone."""


async def capture(
    argv: Sequence[str],
    cwd: Path,
    env: Mapping[str, str] | None = None,
    timeout: float = 60.0,
    stdin: bytes = b"",
    limit: int = 64 * 1024**2,
) -> Captured:
    """Run a tool to its end in a process group of its own; at most `limit` bytes of each stream are kept.

    Raises ToolMissing when there is no such program and TimeoutError when it took too long; on that and on
    cancellation the group is killed before this returns.
    """
    process = _start(argv, cwd, child_environment() if env is None else dict(env))
    pump = _pump(process, stdin, limit)
    pumping = asyncio.get_running_loop().run_in_executor(None, pump.run, timeout)
    try:
        await asyncio.shield(pumping)
    except asyncio.CancelledError:
        pump.kill()
        await pumping
        raise
    if pump.timed_out:
        raise TimeoutError(f"{argv[0]} did not end within {timeout:g} s")
    return Captured(process.returncode, bytes(pump.kept["out"]), bytes(pump.kept["err"]))


def probe(
    argv: Sequence[str], timeout: float, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Captured | None:
    """Ask a program a short question, such as its version, from synchronous code; None if it fails."""
    # In a thread with a loop of its own, because the caller's thread may already run one.
    with ThreadPoolExecutor(1) as thread:
        question = capture(argv, cwd or Path.cwd(), env, timeout, limit=_KEPT_BYTES)
        try:
            return thread.submit(asyncio.run, question).result()
        except (OSError, ValueError, ToolMissing):
            return None


def _start(argv: Sequence[str], cwd: Path, env: dict[str, str]) -> subprocess.Popen[bytes]:
    command, pipe = startable(argv, env), subprocess.PIPE
    try:
        return subprocess.Popen(
            command, cwd=cwd, env=env, stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0, **own_group()
        )
    except FileNotFoundError as error:
        if error.filename not in (command[0], None) or not cwd.is_dir():
            raise
        raise ToolMissing(
            f"{argv[0]} cannot be found", hint=f"Install {argv[0]} or put its folder on PATH."
        ) from error


def _pump(process: subprocess.Popen[bytes], stdin: bytes, limit: int) -> Pump:
    if sys.platform != "win32" and not portable():
        from segue.system.process.pump_posix import SelectorPump

        return SelectorPump(process, stdin, limit)
    from segue.system.process.pump_threads import ThreadPump

    return ThreadPump(process, stdin, limit)
