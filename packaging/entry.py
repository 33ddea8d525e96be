"""Entry point of a one-file build: prepare the process, then run `segue.__main__`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from segue.__main__ import main


def mark_as_frozen() -> None:
    """Set what PyInstaller sets and Nuitka does not: that the program is frozen, and its path."""
    if "__compiled__" in globals():
        sys.frozen = True  # type: ignore[attr-defined]
        sys.executable = str(Path(sys.argv[0]).resolve())


def die_with_the_unpacker() -> None:
    """End this process when the one that unpacked it is killed."""
    parent = os.getppid()
    if sys.platform != "linux" or not _was_unpacked():
        return
    import ctypes
    import signal

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        sys.exit(1)  # it was killed before the call above


def _was_unpacked() -> bool:
    folder = getattr(sys, "_MEIPASS", None)
    if folder is None:  # Nuitka
        return os.environ.get("NUITKA_ONEFILE_PARENT") == str(os.getppid())
    # PyInstaller's folder has its parts beside the program, and there is no second process.
    return Path(folder).parent != Path(sys.executable).parent


if __name__ == "__main__":
    mark_as_frozen()
    die_with_the_unpacker()
    main()
