"""What an agent yields, in short words; and what it is built with."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from segue.domain.events import Event, event_data
from segue.domain.job import Job
from segue.domain.outcome import FailureKind, Outcome
from segue.ports import Agent
from segue.system.process.processes import Processes
from segue.system.redact import Redactor
from segue.system.services import Services

Items = list[Event | Outcome]
T = TypeVar("T", bound=Event)


def lend(processes: Processes, *secrets: str) -> Services:
    """Return what an agent is built with."""
    return Services(Path.cwd(), Path.cwd(), processes, Redactor(secrets))


async def run_to_end(agent: Agent, job: Job) -> Items:
    """Run a job to its end."""
    return [item async for item in agent.run(job)]


def as_stored(items: Items, *secrets: str) -> Items:
    """Return the items as they enter the journal."""
    return [Redactor(secrets).struct(item) for item in items]


def outcome(items: Items) -> Outcome:
    """Return the last item."""
    assert isinstance(items[-1], Outcome)
    return items[-1]


def failure(items: Items) -> FailureKind | None:
    """Return the kind of failure with which it ended, if it failed."""
    found = outcome(items).failure
    return found.kind if found else None


def is_at_work(marker: str) -> bool:
    """Return whether a process lives that has this in its environment."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):  # it has ended, or belongs to somebody else
            if marker.encode() in path.read_bytes():
                return True
    return False


def events(items: Items) -> list[Event]:
    """Return everything but the outcome."""
    return [item for item in items if isinstance(item, Event)]


def of(items: Items | list[Event], kind: type[T]) -> list[T]:
    """Return the events of one kind."""
    return [item for item in items if isinstance(item, kind)]


def size(items: Items) -> int:
    """Return the length of everything that the events contain."""
    return len(str([event_data(event) for event in events(items)]))
