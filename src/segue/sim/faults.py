"""What can go wrong with requests to a simulated service: which ones, how often, and who counts them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import ClassVar, Generic, TypeVar

from msgspec import Struct, field

from segue.domain.options import NonNegative, Options


class RequestFault(Options, frozen=True):
    """A fault of requests; each service adds its own details."""

    known: ClassVar[Mapping[str, str]]
    """The faults of the service, each with its meaning."""

    fault: str
    """what goes wrong"""
    on: str = "*"
    """the requests, as `POST /v1/agents`; `*` stands for one part of a path, or alone for all"""
    after: NonNegative = 0
    """how many matching requests pass before"""
    times: NonNegative = 1
    """how many requests it spoils; 0: all"""

    def __post_init__(self) -> None:
        check_faults([self.fault], self.known)

    def matches(self, method: str, path: str) -> bool:
        """Return whether a request may have the fault."""
        wanted, _, where = self.on.partition(" ")
        parts = "[^/]*".join(re.escape(part) for part in where.split("*"))
        return wanted in ("", "*", method) and (where in ("", "*") or re.fullmatch(parts, path) is not None)


F = TypeVar("F", bound=RequestFault)


class FaultCounter(Struct, Generic[F]):
    """The faults of requests, and how many matching requests each has seen."""

    faults: list[F]
    _seen: dict[int, int] = field(default_factory=dict)

    def pick(self, method: str, path: str) -> F | None:
        """Count the request for every fault that matches it, and return the first fault that is due."""
        chosen: F | None = None
        for index, fault in enumerate(self.faults):
            if not fault.matches(method, path):
                continue
            seen = self._seen[index] = self._seen.get(index, 0) + 1
            is_due = seen > fault.after and (not fault.times or seen <= fault.after + fault.times)
            chosen = fault if chosen is None and is_due else chosen
        return chosen


def check_faults(names: Iterable[str], known: Mapping[str, str]) -> None:
    """Raise ValueError for a fault that does not exist."""
    for name in names:
        if name not in known:
            raise ValueError(f"there is no fault {name!r}; there are {', '.join(known)}")
