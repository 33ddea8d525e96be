"""A small Segue that runs one command through `Processes`, to be killed; and what the process tests share."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import asdict, replace

from segue.domain.job import Limits
from segue.system.identity import start_time
from segue.system.process.processes import Chunk, Command, Exit, Processes, child_environment

GRACE = 0.3
PATIENCE = 300.0


@dataclass(frozen=True)
class Ran:
    """Everything one run yielded."""

    out: bytes
    err: bytes
    exit: Exit


def shell(script: str, cwd: Path, stdin: bytes = b"", **limits: Any) -> Command:
    """A command whose agent is a shell script."""
    return program(("/bin/sh", "-c", script), cwd, stdin, **limits)


def program(argv: tuple[str, ...], cwd: Path, stdin: bytes = b"", **limits: Any) -> Command:
    """A command with a short grace."""
    return Command(argv, cwd, child_environment(), stdin, Limits(**{"grace": GRACE, **limits}))


async def follow(processes: Processes, token: str, command: Command) -> Ran:
    """Run to the end; the exit must come last and once."""
    seen = {"out": bytearray(), "err": bytearray()}
    exits: list[Exit] = []
    async for item in processes.run(token, command):
        assert not exits
        if isinstance(item, Chunk):
            seen[item.stream] += item.data
        else:
            exits.append(item)
    (last,) = exits
    return Ran(bytes(seen["out"]), bytes(seen["err"]), last)


def run_once(folder: Path, command: Command, token: str = "t1") -> Ran:
    """Run or adopt one command in a context of its own."""

    async def main() -> Ran:
        async with Processes(folder) as processes:
            return await follow(processes, token, command)

    return asyncio.run(main())


def wait_for(condition: Callable[[], bool], what: str = "it") -> None:
    """Wait until the condition holds; fail after a long while."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.005)


def alive(pid: int) -> bool:
    """Whether the process runs (a zombie does not)."""
    return start_time(pid) is not None


def supervisor_pids(folder: Path) -> list[int]:
    """The supervisors noted in a run's folder that are alive."""
    pids = [int(note.name) for note in (folder / "supervisors").glob("[0-9]*")]
    return [pid for pid in pids if alive(pid)]


def left_behind(folder: Path) -> list[int]:
    """Every living process that was started for a job in this folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if f"SEGUE_JOB_FOLDER={folder}/".encode() in environment and alive(int(entry.name)):
            found.append(int(entry.name))
    return found


def start_driver(
    folder: Path, script: str, stderr: int | None = None, **options: Any
) -> subprocess.Popen[str]:
    """Start the small Segue in another process; it says `ready` when its imports are done."""
    asked = json.dumps({"folder": str(folder), "script": script, **options})
    driver = subprocess.Popen(
        [sys.executable, "-m", "tests.system.process_driver", asked],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert driver.stdout
    assert driver.stdout.readline() == "ready\n"
    return driver


def finish_driver(driver: subprocess.Popen[str]) -> dict[str, Any]:
    """What the small Segue saw."""
    out, _ = driver.communicate(timeout=PATIENCE * 2)
    seen: dict[str, Any] = json.loads(out)
    return seen


def kill_driver(driver: subprocess.Popen[str]) -> None:
    """Kill the small Segue without a warning."""
    driver.send_signal(signal.SIGKILL)
    driver.communicate(timeout=PATIENCE)


async def _drive(asked: dict[str, Any]) -> dict[str, Any]:
    folder = Path(asked["folder"])
    hold = [os.open(asked["lock"], os.O_RDWR)] if "lock" in asked else []
    if hold:
        import fcntl

        fcntl.flock(hold[0], fcntl.LOCK_EX)
    before = _peak(os.getpid())
    sizes = {"out": 0, "err": 0}
    async with Processes().bind(folder, hold) as processes:
        command = replace(
            shell(asked["script"], folder.parent, asked.get("prompt", "prompt").encode()),
            turn_end=asked.get("turn_end", ""),
        )
        async for item in processes.run("t1", command):
            if isinstance(item, Chunk):
                sizes[item.stream] += len(item.data)
            else:
                last = asdict(item)
        grown = _peak(os.getpid()) - before
        return {
            "exit": last,
            "sizes": sizes,
            "grown_kb": grown,
            "supervisor_kb": _peak(*supervisor_pids(folder)),
        }


def _peak(pid: int) -> int:
    """The highest resident memory in kilobytes; ru_maxrss would count what the parent used, too."""
    return int(Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0])


def main() -> None:
    """Do what the first argument asks, and print what was seen."""
    asked = json.loads(sys.argv[1])
    if "file_size" in asked:
        resource.setrlimit(resource.RLIMIT_FSIZE, (asked["file_size"], asked["file_size"]))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdout.write(json.dumps(asyncio.run(_drive(asked))))


if __name__ == "__main__":
    main()
