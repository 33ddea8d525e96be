"""The process that a careless program leaves behind: in a session of its own, holding its output open."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

_SECONDS = 600


def leave_orphan() -> None:
    """Start one and do not look back."""
    argv = [sys.executable, "-I", "-S", str(Path(__file__).resolve())]
    subprocess.Popen(argv, stdin=subprocess.DEVNULL, start_new_session=True)


if __name__ == "__main__":
    time.sleep(_SECONDS)
