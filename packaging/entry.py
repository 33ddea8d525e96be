"""Entry point of the one-file build: prepare the process, then run `segue.__main__`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from segue.__main__ import main


def die_with_the_unpacker() -> None:
    """End this process when the one that unpacked it is killed."""
    parent = os.getppid()
    # Where nothing was unpacked, the parts are beside the program, and there is no second process.
    unpacked = Path(getattr(sys, "_MEIPASS", "")).parent != Path(sys.executable).parent
    if sys.platform != "linux" or not unpacked:
        return
    import ctypes
    import signal

    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != parent:
        sys.exit(1)  # it was killed before the call above


if __name__ == "__main__":
    die_with_the_unpacker()
    main()
