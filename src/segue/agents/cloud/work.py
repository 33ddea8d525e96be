"""What a job in the cloud needs on its way: times, the note why it was stopped, an API that is away."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from segue.agents.cloud.errors import BY_US, CloudService
from segue.domain.events import Event
from segue.domain.job import Job
from segue.domain.outcome import Failure, Outcome
from segue.system.patience import Wait

LOOK_SECONDS = 5.0
"""Seconds for one look at work whose time is up."""
_NOTE = "stopped"


def loop_time() -> float:
    """Return the time of the event loop, in which deadlines are given."""
    return asyncio.get_running_loop().time()


def fail_to_start(failure: Failure, job: Job, duration: float = 0.0) -> Outcome:
    """Return the outcome of a job for which nothing was started."""
    return Outcome(
        failure=failure, session=job.session, model=job.model, duration=duration, facts={"adopted": False}
    )


def shorten(deadline: float, age: float | None) -> float:
    """Return the deadline of work that was adopted; but one look must be possible, however old it is."""
    return max(deadline - (age or 0.0), loop_time() + LOOK_SECONDS)


class StopNote(Struct, frozen=True):
    """Why we have stopped the work, kept until its outcome is stored."""

    folder: Callable[[], Path]

    def write(self, why: str) -> None:
        """Store it before the vendor is asked."""
        (self.folder() / _NOTE).write_text(why, encoding="ascii")

    def drop(self) -> None:
        """Forget it: the vendor has refused, so whatever ended the work, it was not us."""
        (self.folder() / _NOTE).unlink(missing_ok=True)

    def read(self) -> str:
        """Return why we have stopped it, now or before we were killed; empty if we have not."""
        try:
            word = (self.folder() / _NOTE).read_text(encoding="ascii")
        except OSError:
            return ""
        return word if word in BY_US else ""


class ApiAbsence:
    """An API that does not answer while work is watched."""

    def __init__(self, service: CloudService, patience: float, deadline: float) -> None:
        """`patience`: how long it may be away before watching is given up; 0: until the deadline."""
        self._service, self._patience, self._deadline = service, patience, deadline
        self._wait: Wait | None = None

    def note(self, reason: str) -> list[Event]:
        """Note that the API is away; raises ServiceAway when it has been so for too long."""
        if not self._patience or loop_time() >= self._deadline:
            return []
        if self._wait is None:
            self._wait = Wait(self._service.name, reason, self._patience)
            return [self._wait.began]
        self._wait.pause(reason)
        return []

    def end(self) -> list[Event]:
        """Note that it has answered."""
        back, self._wait = self._wait, None
        return [back.ended] if back else []
