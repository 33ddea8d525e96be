"""How much memory a run takes whose agent prints a gigabyte, and whether servers grow (Linux)."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.place import place
from bench.table import Figure, megabytes, more

TARGET = 150e6
LINE = "y" * 79
OUTPUTS = {
    "in lines": f"yes {LINE} | head -c {{size}}",
    "in one line": "head -c {size} /dev/zero | tr '\\0' x",
}


def figures(quick: bool) -> Iterator[Figure]:
    """Measure both processes of a run, with little output and with much."""
    if sys.platform != "linux":
        return
    size = 200_000_000 if quick else 1_000_000_000
    for shape, program in OUTPUTS.items():
        quiet = peaks(program.format(size=1000))
        loud = peaks(program.format(size=size))
        for part in ("Segue", "supervisor"):
            yield Figure(
                f"peak memory of {part}, agent prints {size / 1e9:g} GB {shape}",
                megabytes(loud[part]),
                f"agent prints 1 kB: {megabytes(quiet[part])}",
                more(megabytes, loud[part] - quiet[part]),
                f"≤ {megabytes(TARGET)}",
                loud[part] <= TARGET,
            )


def peaks(program: str) -> dict[str, int]:
    """The highest resident memory of Segue and of its supervisor during one run, in bytes."""
    highest = {"Segue": 0, "supervisor": 0}
    with place() as here:
        plan = here.write_plan(1)
        agent = ["sh", "-c", program]
        command = here.command("run", str(plan), "--allow-no-change", "--quiet", argv=agent)
        process = subprocess.Popen(command, cwd=here.repo, env=here.environment)
        while process.poll() is None:
            highest["Segue"] = max(highest["Segue"], peak_of(process.pid))
            for child in _children(process.pid):
                if b"supervisor" in _read(f"/proc/{child}/cmdline"):
                    highest["supervisor"] = max(highest["supervisor"], peak_of(child))
            time.sleep(0.01)
        if process.returncode != 0:
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return highest


def peak_of(pid: int) -> int:
    """The kernel keeps the highest value itself, so that nothing is missed between two looks."""
    for line in _read(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task")
    try:
        return [int(child) for task in tasks.iterdir() for child in _read(f"{task}/children").split()]
    except OSError:
        return []


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
