"""What the checks of a run say before anybody works on it: what is red already, and what cannot start."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from segue.domain.amounts import format_count, list_some

_LISTED = 5


class BaseState(StrEnum):
    """How a check ends on the tree that a run begins with."""

    GREEN = "green"
    RED = "red"
    """It fails already: what fails is a known failure of the run."""
    EMPTY = "empty"
    """There are no tests yet, as in a young project."""
    UNREADY = "unready"
    """It cannot start, so it would say nothing about any task."""


class BaseCheck(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one check says about the tree that a run begins with."""

    command: str
    state: BaseState
    tests: int = 0
    """How many tests ran, files that could not be loaded included."""
    failing: tuple[str, ...] = ()
    """Tests that fail already, and files that cannot be loaded."""
    red_files: tuple[str, ...] = ()
    """Files with failing tests of which no test passes."""
    by_code: bool = False
    """Whether the command fails for another reason than its tests, as a linter does."""
    reason: str = ""
    """Why it cannot start, or cannot start yet."""
    missing: tuple[str, ...] = ()
    """What it lacks to start, by name; a task that names it may add it."""
    output: str = ""
    """The command's own last lines, where no test explains the failure."""
    seconds: float = 0.0
    """How long it took; 0: the result was known."""

    @property
    def known(self) -> frozenset[str]:
        """What may fail from now on: ids of tests, and the command itself where its exit code is meant."""
        own = (self.command,) if self.by_code or self.state is BaseState.UNREADY else ()
        return frozenset((*self.failing, *own))

    @property
    def words(self) -> str:
        """What people should know about it; empty: nothing, because it is green."""
        if self.state is BaseState.UNREADY:
            return f"`{self.command}` cannot start: {self.reason}"
        if self.reason:
            return f"`{self.command}` cannot start yet: {self.reason}"
        if self.failing:
            verb = "fails" if len(self.failing) == 1 else "fail"
            listed = list_some(self.failing, _LISTED)
            return f"{len(self.failing)} of {format_count(self.tests, 'test')} {verb} already: {listed}"
        return f"`{self.command}` fails already" if self.state is BaseState.RED else ""


class KnownFailures(msgspec.Struct, frozen=True):
    """What was red before the run, for one check; the command stands for its exit code."""

    tests: frozenset[str] = frozenset()
    repaired: frozenset[str] = frozenset()
    """Those that a task has repaired since: later tasks must keep them green."""

    def forgive(self, test: str, *, red: bool) -> bool:
        """Return whether a test may fail; `red`: it fails where the task began."""
        return test in self.tests and (red or test not in self.repaired)
