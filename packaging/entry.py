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
    parent = os.getppid()
    if sys.platform != "linux" or not _was_unpacked():
        return
    import ctypes
    import signal

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        sys.exit(1)  # it was killed before we asked


def _was_unpacked() -> bool:
    folder = getattr(sys, "_MEIPASS", None)
    if folder is None:  # Nuitka
        return os.environ.get("NUITKA_ONEFILE_PARENT") == str(os.getppid())
    # What PyInstaller builds as a folder has its parts beside it, and no second process.
    return Path(folder).parent != Path(sys.executable).parent


if __name__ == "__main__":
    know_thyself()
    die_with_the_unpacker()
    main()
