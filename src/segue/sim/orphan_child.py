"""The process that a careless program leaves behind: in its own session, keeping the output open."""

from __future__ import annotations

import subprocess
import time

from segue.system.process.group import own_group
from segue.system.process.segue import own_environment, part_command

_SECONDS = 600


def leave_orphan() -> None:
    """Start one and do not wait for it."""
    argv = part_command("segue.sim.orphan_child")
    subprocess.Popen(argv, env=own_environment(), stdin=subprocess.DEVNULL, **own_group())


def main(_arguments: list[str]) -> int:
    """Run as one."""
    time.sleep(_SECONDS)
    return 0
