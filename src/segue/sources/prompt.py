"""One sentence as a source: an agent plans its steps."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from segue.domain.run import RunKind
from segue.domain.task import TaskList
from segue.ports import Source, SourceRequest, SourceTraits
from segue.sources.progress import pair_key
from segue.sources.recognise import recognise


class PromptSource(Source):
    """A goal in one repository. The plan for it is in the journal."""

    kind = "prompt"
    in_files = True
    traits = SourceTraits(run_kind=RunKind.BUILD, usual_flow="build")

    @classmethod
    def matches(cls, request: SourceRequest) -> bool:
        """Return whether a sentence was given: several words that are no file."""
        return recognise(request) == cls.kind

    @classmethod
    def open(cls, request: SourceRequest) -> Self:
        """Open the goal without secrets: it is stored in files, in the database and in names."""
        return cls(request.redact(request.named or ""), request.repo)

    def __init__(self, goal: str, repo: Path) -> None:
        self._goal = goal.strip()
        self.key = pair_key(self.kind, self._goal, repo)

    @property
    def address(self) -> str:
        """The goal itself."""
        return self._goal

    @property
    def goal(self) -> str:
        """What an agent is to plan steps for."""
        return self._goal

    def tasks(self) -> TaskList:
        """Return nothing: the record has the steps."""
        return TaskList(())
