"""Start Segue itself again: in the background, in a session of its own, or as a child that is waited for."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from segue.system.process.group import own_group
from segue.system.program import own_environment, segue_command


def start_in_background(
    arguments: Sequence[str], *, log: Path, cwd: Path, variables: Mapping[str, str]
) -> int:
    """Start `segue ARGUMENTS`, its output in the log; return its pid."""
    with log.open("ab") as file:
        child = subprocess.Popen(
            [*segue_command(), *arguments],
            cwd=cwd,
            env=own_environment(variables),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            **own_group(hidden=True),
        )
    child.returncode = 0  # it outlives us on purpose: nobody waits for it
    return child.pid


async def run_segue(arguments: Sequence[str], *, log: Path, cwd: Path, variables: Mapping[str, str]) -> int:
    """Run `segue ARGUMENTS` to its end, its output in the log; return its exit code.

    When the wait is cancelled, it is interrupted as by Ctrl-C, so that it saves its state.
    """
    with log.open("ab") as file:
        child = await asyncio.create_subprocess_exec(
            *[*segue_command(), *arguments],
            cwd=cwd,
            env=own_environment(variables),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    try:
        return await child.wait()
    except asyncio.CancelledError:
        with contextlib.suppress(ProcessLookupError):
            child.send_signal(signal.SIGINT)
        await child.wait()
        raise
