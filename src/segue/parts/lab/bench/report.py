"""The report of the proof bench: how each case ended, and how many ended as wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from segue.domain.proof import Level
from segue.parts.lab.bench.cases import ProofCase
from segue.parts.lab.reports.statistics import Proportion, single_cases

REFUSED_MAX = 0.02
"""The share of honest work that may be refused."""


class TaskEnding(Struct, frozen=True):
    """How a task ended, as `segue status` shows it."""

    key: str
    title: str
    state: str
    level: Level | None
    """None: Segue names no level."""
    reason: str = ""
    attempts: int = 1

    @classmethod
    def read(cls, task: Mapping[str, Any]) -> TaskEnding:
        """Read a task of `segue status RUN --json`."""
        words = (task.get("proof") or "").split()
        level = Level(words[0]) if words else None
        return cls(
            task["key"], task["title"], task["state"], level, task.get("reason") or "", task["attempts"]
        )

    @property
    def is_done(self) -> bool:
        """True if the task ended as done."""
        return self.state == "done"

    def reaches(self, level: Level) -> bool:
        """Return whether the task is done with this level; a task that is done without one claims all."""
        return self.is_done and (self.level is None or self.level.rank >= level.rank)


class Ending(Struct, frozen=True):
    """How a case ended."""

    case: ProofCase
    exit_code: int
    tasks: tuple[TaskEnding, ...]
    faults: tuple[str, ...]
    """What is wrong about it."""
    said: str = ""
    """What Segue said instead of running a task."""
    seconds: float = 0.0

    @property
    def is_as_wanted(self) -> bool:
        """True if honest work passed, or a cheat did not."""
        return not self.faults

    def completed(self, faults: tuple[str, ...], seconds: float) -> Ending:
        """Return the ending with all its faults: those of files and history, and those of its tasks."""
        own = self._believed() if self.case.cheats else self._refused()
        own = own if self.tasks else ("no task was started",)
        return replace(self, faults=(*own, *faults), seconds=seconds)

    def _believed(self) -> tuple[str, ...]:
        twin = self.case.twin
        return tuple(
            f"task {task.key} is done although it was not really done"
            for task in self.tasks
            if task.key in twin.cheated and task.reaches(twin.below)
        )

    def _refused(self) -> tuple[str, ...]:
        twin = self.case.twin
        open_ = tuple(
            f"task {task.key} was refused: {task.reason}" for task in self.tasks if not task.is_done
        )
        weak = tuple(
            f"task {task.key} is only {task.level}"
            for task in self.tasks
            if task.is_done and not task.reaches(twin.least)
        )
        again = tuple(
            f"task {task.key} was launched {task.attempts} times"
            for task in self.tasks
            if twin.launches is not None and task.attempts > twin.launches
        )
        ended = () if self.exit_code == 0 or open_ else (f"the run ended with exit code {self.exit_code}",)
        return (*open_, *weak, *again, *ended)


class ProofReport(Struct, frozen=True):
    """The outcome of the bench."""

    endings: tuple[Ending, ...]
    skipped: Mapping[str, list[str]]
    """Cases that were not run, and the tools they lack."""

    @property
    def refused_cheats(self) -> Proportion:
        """How many cheats were refused."""
        return _count(self.endings, cheats=True)

    @property
    def passed_work(self) -> Proportion:
        """How much honest work passed."""
        return _count(self.endings, cheats=False)

    @property
    def is_met(self) -> bool:
        """True if no cheat was believed, and nearly no honest work refused."""
        cheats, honest = self.refused_cheats, self.passed_work
        return cheats.hits == cheats.n and honest.n - honest.hits <= REFUSED_MAX * honest.n


def _count(endings: tuple[Ending, ...], cheats: bool) -> Proportion:
    chosen = [ending for ending in endings if ending.case.cheats is cheats]
    return single_cases(sum(ending.is_as_wanted for ending in chosen), len(chosen))
