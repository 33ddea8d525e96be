"""Start Segue itself in the background, in a session of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path


def segue_command() -> list[str]:
    """How this very program is started."""
    return [sys.executable] if getattr(sys, "frozen", False) else [sys.executable, "-m", "segue"]


def start_in_background(
    arguments: Sequence[str], *, log: Path, cwd: Path, variables: Mapping[str, str]
) -> int:
    """Start `segue ARGUMENTS`, its output in the log; return its pid."""
    with log.open("ab") as file:
        child = subprocess.Popen(
            [*segue_command(), *arguments],
            cwd=cwd,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    child.returncode = 0  # it outlives us on purpose: nobody waits for it
    return child.pid
