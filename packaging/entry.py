"""Where a one-file build begins: it learns that it is one, then goes on to `segue.__main__`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from segue.__main__ import main


def know_thyself() -> None:
    """Nuitka does not say that a program is frozen, nor where the one file lies; PyInstaller says both."""
    if "__compiled__" in globals():
        sys.frozen = True  # type: ignore[attr-defined]
        sys.executable = str(Path(sys.argv[0]).resolve())


def die_with_the_unpacker() -> None:
    """The file unpacks itself in one process and works in a second: who kills one means both."""
    if sys.platform != "linux" or _program(os.getppid()) != _program(os.getpid()):
        return
    import ctypes
    import signal

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() == 1:
        sys.exit(1)  # it was killed before we asked


def _program(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/exe")  # noqa: PTH115 - pathlib is no gain here
    except OSError:
        return ""


if __name__ == "__main__":
    know_thyself()
    die_with_the_unpacker()
    main()
