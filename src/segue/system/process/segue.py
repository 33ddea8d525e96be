"""Start Segue itself or a part of it again: from the package, or from a one-file build."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import MappingProxyType

from segue.system.process.group import own_group
from segue.system.programs import CHILD, segue_environment

_RUN = (
    "import os, sys; sys.path += sys.argv.pop(1).split(os.pathsep);"
    " from {module} import main; sys.exit(main(sys.argv[1:]))"
)


def frozen() -> bool:
    """Return whether the program is a one-file build with its own Python."""
    return bool(getattr(sys, "frozen", False))


def segue_command() -> list[str]:
    """Return the command that starts Segue; modules in the folder it is started in are not imported."""
    return [sys.executable] if frozen() else [sys.executable, "-P", "-m", "segue"]


def part_command(module: str) -> list[str]:
    """Return the command of a module that starts with the standard library alone, so that it starts fast.

    Its `main` gets the arguments. psutil can be imported there, but only by what really needs it.
    """
    if frozen():
        return [sys.executable, CHILD, module]
    return [sys.executable, "-I", "-S", "-c", _RUN.format(module=module), os.pathsep.join(part_folders())]


@cache
def part_folders() -> list[str]:
    """Return the folders that contain this package and psutil; usually the same one."""
    import importlib.util  # the parts import this module too, and start without what they do not need

    spec = importlib.util.find_spec("psutil")
    found = [Path(__file__).resolve().parents[3]]
    if spec is not None and spec.origin:
        found.append(Path(spec.origin).parents[1])
    return [str(folder) for folder in dict.fromkeys(found)]


def own_environment(variables: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Return the environment for a copy of this program that may outlive it."""
    # A one-file build is unpacked into a folder that is deleted at its end; the copy needs its own.
    reset = {"PYINSTALLER_RESET_ENVIRONMENT": "1"} if frozen() else {}
    return {**segue_environment(), **reset, **variables}


def start_part(module: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a module as a program of its own, with pipes to talk with it."""
    return subprocess.Popen(
        [*part_command(module), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=own_environment(),
        **own_group(hidden=True),
    )


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


def has_ended(pid: int) -> bool:
    """Return whether a process that was started in the background by this one has ended, and forget it."""
    if sys.platform == "win32":
        return True  # not known: its log has to say it
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True  # somebody has asked before


async def run_segue(arguments: Sequence[str], *, log: Path, cwd: Path, variables: Mapping[str, str]) -> int:
    """Run `segue ARGUMENTS` to its end, its output in the log; return its exit code.

    When the wait is cancelled, it is interrupted as by Ctrl-C, so that it saves its state.
    """
    import asyncio

    with log.open("ab") as file:
        child = await asyncio.create_subprocess_exec(
            *segue_command(),
            *arguments,
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
