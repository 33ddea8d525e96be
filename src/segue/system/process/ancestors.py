"""Says whether this process was started by an agent that Segue launched."""

from __future__ import annotations

import contextlib
import os

from segue.system.process.table import JOB_MARKER


def is_in_job() -> bool:
    """Return whether an agent of a run started this process, itself or through others.

    Some agents give the programs they start a clean environment, so the processes above count, too.
    """
    if os.environ.get(JOB_MARKER):
        return True
    import psutil

    with contextlib.suppress(psutil.Error):
        for parent in psutil.Process().parents():
            with contextlib.suppress(psutil.Error, OSError):
                if parent.environ().get(JOB_MARKER):
                    return True
    return False
