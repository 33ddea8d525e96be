"""Start Segue itself in the background, in a session of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from segue.system.process_group import own_group
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
