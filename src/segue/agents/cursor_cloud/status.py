"""Where a run stands: one word for the many that v0, v1 and people use."""

from __future__ import annotations

from enum import StrEnum


class Status(StrEnum):
    """Where a run stands. UNKNOWN is not the end: it is watched until its deadline."""

    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    GONE = "gone"
    UNKNOWN = "unknown"

    @property
    def terminal(self) -> bool:
        """Whether it stays like this."""
        return self not in (Status.QUEUED, Status.RUNNING, Status.UNKNOWN)


WORDS = {
    "CREATING": Status.QUEUED,
    "PENDING": Status.QUEUED,
    "QUEUED": Status.QUEUED,
    "RUNNING": Status.RUNNING,
    "FINISHED": Status.SUCCEEDED,
    "ERROR": Status.FAILED,
    "FAILED": Status.FAILED,
    "CANCELLED": Status.CANCELLED,
    "CANCELED": Status.CANCELLED,
    "STOPPED": Status.CANCELLED,
    "EXPIRED": Status.EXPIRED,
    "DELETED": Status.GONE,
}
"""The API's words, and those that people expect of it."""


def normalised(word: object) -> Status:
    """The status that a word means."""
    return WORDS.get(word.strip().upper(), Status.UNKNOWN) if isinstance(word, str) else Status.UNKNOWN
