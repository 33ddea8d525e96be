"""What can happen to a run besides a kill of Segue alone; it may happen at any of its durable calls."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.cli.place import DEADLINE, Place
from tests.crash.points import Fault, Stopped, send

_PAUSE = 0.5


def _kill_all(run: Stopped) -> None:
    run.kill_all()


def _kill_segue(run: Stopped) -> None:
    send(run.process.pid, signal.SIGKILL)
    _continue(run)


def _kill_supervisor(run: Stopped) -> None:
    for pid in _supervisors(run.place):
        send(pid, signal.SIGKILL)
    _continue(run)


def _kill_both(run: Stopped) -> None:
    send(run.process.pid, signal.SIGKILL)
    _kill_supervisor(run)


def _kill_agent(run: Stopped) -> None:
    for pid in _agents(run.place):
        send(pid, signal.SIGKILL)
    _continue(run)


def _kill_git(run: Stopped) -> None:
    for pid in (run.hit, *run.children()):
        if _name(pid) == "git":
            send(pid, signal.SIGKILL)
    _continue(run)


def _pause(run: Stopped) -> None:
    """Stop everything for a moment, while somebody else tries to continue the run."""
    stopped = [run.process.pid, *run.children()]
    for pid in stopped:
        send(pid, signal.SIGSTOP)
    other = run.place.start("resume")
    time.sleep(_PAUSE)
    for pid in stopped:
        send(pid, signal.SIGCONT)
    _continue(run)
    # It is refused (6), finds no run yet (2), or has waited until the run was done (0).
    assert other.wait(DEADLINE) in (0, 2, 6), "a second process was let in"


def _truncate(run: Stopped) -> None:
    run.kill_all()
    for file in _state_files(run.place):
        os.truncate(file, file.stat().st_size // 2)


def _delete(run: Stopped) -> None:
    run.kill_all()
    for file in _state_files(run.place):
        file.unlink()


KILLS = ("segue killed", "all killed")
FAILURES = ("disk full", "call fails")
"""What no agent notices that has ended: none is launched twice for it."""

EVERYWHERE = (*KILLS, *FAILURES)
"""What is tried at every call."""

LOSING_STATE = ("all killed, state file cut in half", "all killed, state file deleted")

FAULTS: dict[str, tuple[Fault, Callable[[Stopped], None] | None]] = {
    KILLS[0]: (Fault.KILL, None),
    KILLS[1]: (Fault.STOP, _kill_all),
    "segue killed, git and supervisor watched": (Fault.STOP, _kill_segue),
    "supervisor killed": (Fault.STOP, _kill_supervisor),
    "segue and supervisor killed": (Fault.STOP, _kill_both),
    "agent killed": (Fault.STOP, _kill_agent),
    "git killed": (Fault.STOP, _kill_git),
    "paused": (Fault.STOP, _pause),
    FAILURES[0]: (Fault.FULL, None),
    FAILURES[1]: (Fault.BROKEN, None),
    LOSING_STATE[0]: (Fault.STOP, _truncate),
    LOSING_STATE[1]: (Fault.STOP, _delete),
}
"""What happens at the call, and who acts while everything is stopped."""

HARMLESS = (KILLS[0], "segue killed, git and supervisor watched", "paused")
"""Faults that no agent notices: none is launched again."""


def _continue(run: Stopped) -> None:
    send(run.hit, signal.SIGCONT)


def _supervisors(place: Place) -> Iterator[int]:
    for note in (place.database.parent / "runs").glob("*/supervisors/[0-9]*"):
        yield int(note.name)


def _agents(place: Place) -> Iterator[int]:
    for file in (place.database.parent / "runs").glob("*/jobs/*/job.json"):
        yield int(json.loads(file.read_text())["child"].split("/")[2])


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _state_files(place: Place) -> list[Path]:
    state = place.database.parent
    found = [
        *state.glob("plans/*.json"),
        *state.glob("prompts/*.json"),
        *place.repo.glob("specs/*/state.json"),
    ]
    return [file for file in found if file.is_file()]
