"""The socket for test runners: how to get a report out of a command without changing it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from segue.proof.report import Report


class Project(Struct, frozen=True):
    """What is known about a check before it runs."""

    argv: tuple[str, ...]
    paths: Collection[str]
    """The files of the tree, from the root of the repository."""


class Stage(Struct, frozen=True):
    """The places of one run of a check."""

    argv: tuple[str, ...]
    root: Path
    """Where the check sees the tree: at the repository's own path, unless it runs on a copy."""
    tree: Path
    """Where the tree is now. A runner may change its copy of the tests, such as append a canary."""
    hooks: Path
    """A folder for what the runner is made to load; the check sees it under this path and cannot write it."""
    reports: Path
    """A folder that the check can write, under this path too."""
    token: str
    """A random word for names of hooks, reports and canaries: letters and digits, begins with a letter."""
    tests: tuple[str, ...]
    """The test files of the tree, from its root."""

    def relative(self, folder: str) -> str:
        """Return a folder from the root of the repository; empty for the root itself, and for others."""
        path = Path(folder)
        return path.relative_to(self.root).as_posix() if self.root in path.parents else ""


class Ended(Struct, frozen=True):
    """How a run of a check ended."""

    exit_code: int | None
    """None: it took too long."""
    out: str
    err: str
    changed: tuple[str, ...] = ()
    """Tests and control files that it has rewritten, where nothing could keep it from that."""


class Runner(Protocol):
    """Gets a report out of one test runner."""

    name: str

    def applies(self, project: Project) -> bool:
        """Return whether the command may start this runner: True rather than False when in doubt.

        It must do no harm to commands that do not start it.
        """
        ...

    def arm(self, stage: Stage) -> Mapping[str, str]:
        """Write hooks and canaries to the stage; return the variables that make the runner load them.

        Variables of several runners are joined: `PYTHONPATH` by colons, others by spaces.
        """
        ...

    def read(self, stage: Stage, ended: Ended) -> Report | None:
        """Return what the runner reported; None if it did not start or did not finish its report.

        A failed canary is not in `tests`. The result must not depend on the exit code.
        """
        ...

    def clean(self, text: str) -> str:
        """Return the output as people want to read it, without traces of hooks and canaries."""
        ...
