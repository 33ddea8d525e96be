"""Everything Segue can raise on purpose, with the exit code each one ends in.

SegueError                    1   unexpected
├── UsageError                2   wrong words on the command line or in the configuration
│   ├── CheckUnready          2   a check of the run cannot start, as it is
│   └── SourceError           2   the plan (or other source) cannot be read
├── WorkspaceError            2   the repository is not fit to start in
├── NeedsHuman                3   a task stopped the run
│   └── AtGate                3   the run waits at a gate until a person lets it continue
│       └── AtPlan            3   it waits for a person's word on the plan
├── CredentialsError          4   a key is missing or was rejected
├── ServiceAway               7   a service was away for too long; the run is parked
├── ToolMissing               5   a program that is needed cannot be found
├── Locked                    6   another run holds the lock
├── JudgeFailed               3   the judge gave no usable answer
├── StoreError                1   the database cannot be used
│   ├── QueryError            2   a question in SQL that it cannot answer
│   ├── DamagedRecord         1   a record that is needed cannot be read
│   ├── LeaseLost             6   somebody else drives this run now
│   ├── StoreFull             1   the disk of the database is full
│   ├── StoreDenied           4   the database rejects the user or the password
│   └── StoreAway             7   the database was away for too long; the run is parked
├── TimeLimit               124   the run's own time limit
└── Interrupted             130   Ctrl-C or `segue stop`; the state is saved
"""

from __future__ import annotations

AGAIN = "give the same command again"
"""What hints end with that may be shown where no run exists; where one does, its session names it instead."""


class SegueError(Exception):
    """A failure a user can understand: what happened, what was kept, what to do next."""

    exit_code = 1

    def __init__(self, message: str, *, kept: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.kept = kept
        self.hint = hint

    def name_run(self, run: str) -> None:
        """Let the hint say how to continue a run, now that there is one."""
        self.hint = self.hint.replace(AGAIN, f"run: segue resume {run}")


class UsageError(SegueError):
    """The command line or the configuration is wrong."""

    exit_code = 2


class CheckUnready(UsageError):
    """A check cannot start on what the run begins with, so no agent is launched; a person repairs it."""


class SourceError(UsageError):
    """The source of tasks is missing or cannot be understood."""


class WorkspaceError(SegueError):
    """The repository is not fit to start in."""

    exit_code = 2


class NeedsHuman(SegueError):
    """A task could not be finished; a person decides what to do."""

    exit_code = 3


class AtGate(NeedsHuman):
    """The run waits at a gate; a person looks at the work and lets it continue."""


class AtPlan(AtGate):
    """The run waits for a person's word on the plan that an agent made."""


class Unfinished(NeedsHuman):
    """One effect of a task failed, such as its commit or its verdict: on resume only that is done again."""

    def __init__(self, message: str, *, reason: str, kept: str = "", hint: str = "") -> None:
        super().__init__(message, kept=kept, hint=hint)
        self.reason = reason


class CredentialsError(SegueError):
    """A key is missing or was rejected."""

    exit_code = 4


class ServiceAway(SegueError):
    """A service that a run needs was away for too long: the run is parked, and `resume` continues it."""

    exit_code = 7


class WaitsElsewhere(ServiceAway):
    """A usage limit ends later than a worker waits for it: the run gives up its slot until then."""

    def __init__(self, message: str, until: float) -> None:
        super().__init__(message, kept="Everything recorded so far is saved.")
        self.until = until


class Unavailable(Exception):
    """A service cannot answer now but may later: it is waited for, for as long as `limits.patience` says."""

    def __init__(self, service: str, reason: str, retry_after: float | None = None) -> None:
        super().__init__(f"{service}: {reason}")
        self.service, self.reason, self.retry_after = service, reason, retry_after


class ToolMissing(SegueError):
    """A program that is needed cannot be found."""

    exit_code = 5


class Locked(SegueError):
    """Another run holds the repository or the run."""

    exit_code = 6


class JudgeFailed(SegueError):
    """The judge gave no usable answer; that says nothing about the task."""

    exit_code = 3


class UnusableAnswer(Exception):
    """The answer of a model or an agent cannot be used; the text says what to correct."""


class StoreError(SegueError):
    """The database cannot be opened, read or written."""


class DamagedRecord(StoreError):
    """A record that is needed whole cannot be read, and defaults for what was lost could do harm."""

    def __init__(self, name: str, why: str = "") -> None:
        super().__init__(
            f"The record of {name} is damaged{why and f': {why}'}.",
            kept="Everything else that was recorded.",
            hint="Restore the database from a copy",
        )


class QueryError(StoreError):
    """A question in SQL is wrong, takes too long, or would change something."""

    exit_code = 2


class LeaseLost(StoreError):
    """Another process took the run over; this one must stop at once."""

    exit_code = 6


class StoreFull(StoreError):
    """The disk of the database is full: what an agent at work says is stored later."""


class StoreDenied(StoreError):
    """The database rejects the user or the password."""

    exit_code = 4


class StoreAway(StoreError):
    """The database was away for too long; `resume` continues the run."""

    exit_code = 7


class TimeLimit(SegueError):
    """The whole run reached its time limit."""

    exit_code = 124


class Interrupted(SegueError):
    """Ctrl-C or `segue stop`."""

    exit_code = 130


class HandedOver(SegueError):
    """The worker that drives a run ends; another one continues it."""
