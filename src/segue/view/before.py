"""What was red before a run began, and what of it was repaired since."""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field, to_builtins

from segue.domain.events import BaseChecked, TaskEnded
from segue.domain.proof import BaseCheck, KnownFailures


class RedBefore(Struct):
    """The known failures of a run, by command."""

    checks: dict[str, BaseCheck] = field(default_factory=dict)
    """What each check said when it was asked last."""
    _known: dict[str, set[str]] = field(default_factory=dict)
    _repaired: dict[str, set[str]] = field(default_factory=dict)

    def know(self, event: BaseChecked) -> None:
        """Take over what the checks said; what is red again is not repaired."""
        for check in event.checks:
            self.checks[check.command] = check
            self._known.setdefault(check.command, set()).update(check.known)
            self._repaired.setdefault(check.command, set()).difference_update(check.known)

    def end(self, event: TaskEnded) -> None:
        """Take over what a task has repaired."""
        for check in event.proof.checks if event.done and event.proof else ():
            if check.command in self._known:
                self._repaired[check.command].update(check.repaired)

    def of(self, command: str) -> KnownFailures:
        """Return the known failures of a check."""
        known, repaired = self._known.get(command, ()), self._repaired.get(command, ())
        return KnownFailures(frozenset(known), frozenset(repaired))

    @property
    def words(self) -> list[str]:
        """What people should know about the checks; empty: all were green."""
        return [check.words for check in self.checks.values() if check.words]

    @property
    def data(self) -> list[dict[str, Any]]:
        """What the checks said, as programs read it."""
        names = ("command", "state", "tests", "failing", "reason", "words")
        return [
            {name: to_builtins(getattr(check, name)) for name in names}
            | {"repaired": sorted(self._repaired.get(check.command, ()))}
            for check in self.checks.values()
        ]
