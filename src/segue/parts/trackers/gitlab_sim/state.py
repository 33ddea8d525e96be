"""The state of a running GitLab simulator: projects, merge requests, discussions, pipelines."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from segue.parts.sim.github.repository import BareBranches
from segue.parts.trackers.gitlab_sim.script import GitlabScript, GitlabToken
from segue.sim.services import ScriptPlayer


class LabNote(Struct):
    """One comment of a discussion."""

    id: int
    author: str
    body: str
    resolvable: bool = False
    resolved: bool = False
    position: dict[str, Any] | None = None
    created: str = field(default_factory=lambda: now())


class LabDiscussion(Struct):
    """Comments that belong together."""

    id: str
    notes: list[LabNote]
    single: bool = False


class LabRequest(Struct):
    """A merge request."""

    id: int
    iid: int
    author: str
    source: str
    target: str
    title: str
    description: str
    sha: str = ""
    labels: list[str] = field(default_factory=list)
    state: str = "opened"
    conflicts: bool = False
    discussions: list[LabDiscussion] = field(default_factory=list)
    created: str = field(default_factory=lambda: now())

    @property
    def draft(self) -> bool:
        """Whether its title says that it is a draft."""
        return self.title.startswith("Draft:")

    @property
    def is_discussed(self) -> bool:
        """Whether a discussion of it is not resolved."""
        return any(note.resolvable and not note.resolved for one in self.discussions for note in one.notes)


class LabJob(Struct):
    """A job of a pipeline."""

    id: int
    name: str
    status: str
    log: str = ""
    allow_failure: bool = False


class LabPipeline(Struct):
    """A pipeline of a commit."""

    id: int
    sha: str
    ref: str
    jobs: list[LabJob]

    @property
    def status(self) -> str:
        """What its jobs add up to."""
        states = {job.status for job in self.jobs if not (job.allow_failure and job.status == "failed")}
        for one in ("failed", "running", "pending", "created"):
            if one in states:
                return one
        return "success"


class LabProject(Struct):
    """A project."""

    id: int
    path: str
    bare: BareBranches
    requests: dict[int, LabRequest] = field(default_factory=dict)
    pipelines: list[LabPipeline] = field(default_factory=list)

    async def refresh(self) -> None:
        """Look at the branches: pushes move merge requests."""
        branches = await self.bare.read()
        for request in self.requests.values():
            if request.state != "opened":
                continue
            request.sha = branches.get(request.source, request.sha)
            target = branches.get(request.target)
            if target and request.sha:
                request.conflicts = not await self.bare.can_merge(target, request.sha)


class Lab(ScriptPlayer[GitlabScript]):
    """The state of one simulator, in one event loop."""

    def __init__(self, script: GitlabScript | None, bares: Mapping[str, Path] | None) -> None:
        """`bares` maps `GROUP/NAME` to bare repositories."""
        self.projects: dict[str, LabProject] = {}
        self.people: dict[str, int] = {}
        """User names and their ids."""
        self._ids = itertools.count(101)
        super().__init__(GitlabScript, script)
        self._add(bares or {})

    def play(self, script: GitlabScript) -> None:
        """Play another script; what is there stays."""
        super().play(script)
        self._add(script.projects)

    def _add(self, bares: Mapping[str, Path]) -> None:
        for path, bare in bares.items():
            self.projects.setdefault(path, LabProject(self.new_id(), path, BareBranches(bare)))

    def new_id(self) -> int:
        """Return an id that nothing else has."""
        return next(self._ids)

    def find(self, name: str) -> LabProject | None:
        """Return a project by its path or id."""
        if name in self.projects:
            return self.projects[name]
        return next((one for one in self.projects.values() if str(one.id) == name), None)

    def user_id(self, name: str) -> int:
        """Return the id of a user; new names are new users."""
        if name not in self.people:
            self.people[name] = self.new_id()
        return self.people[name]

    def level_of(self, name: str) -> int:
        """Return what a user may do; without known tokens everybody is a maintainer."""
        known = [token.access_level for token in self.script.tokens.values() if token.username == name]
        return max(known, default=0 if self.script.tokens else 40)

    def token(self, given: str) -> GitlabToken | None:
        """Return whose token it is; None if nobody's."""
        if not given:
            return None
        return self.script.tokens.get(given) if self.script.tokens else GitlabToken(username="root")


def now() -> str:
    """Return the time as GitLab writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def new_discussion(note: LabNote, single: bool = False) -> LabDiscussion:
    """Return a discussion with its first note."""
    return LabDiscussion(secrets.token_hex(20), [note], single)
