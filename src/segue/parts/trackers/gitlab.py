"""GitLab: merge requests, the jobs of their pipelines, and discussions, by REST."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote

from msgspec import Struct

from segue.deliveries.hosting import (
    WORDS,
    CiReport,
    FailedJob,
    HostedPlace,
    PullRequest,
    ReviewComment,
    ReviewThread,
    explain_unseen,
)
from segue.domain.errors import SegueError
from segue.ports import Problem
from segue.system.http.rest import Refused, Rest

_DRAFT = "Draft: "
_DEVELOPER = 30
"""The access level from which on people may push."""
_RUNNING = frozenset(
    [
        *("created", "waiting_for_resource", "preparing", "pending", "running", "scheduled"),
        "waiting_for_callback",
    ]
)
_TRIED = frozenset({"checking", "unchecked", "preparing", "approvals_syncing"})


class _User(Struct, frozen=True):
    id: int = 0
    username: str = "ghost"


class _Request(Struct, frozen=True, kw_only=True):
    iid: int
    web_url: str
    state: str
    title: str
    description: str | None = None
    draft: bool = False
    source_branch: str
    source_project_id: int | None = None
    target_branch: str
    target_project_id: int | None = None
    sha: str | None = None
    labels: tuple[str, ...] = ()
    has_conflicts: bool = False
    detailed_merge_status: str = ""


class _Access(Struct, frozen=True):
    access_level: int = 0


class _Permissions(Struct, frozen=True):
    project_access: _Access | None = None
    group_access: _Access | None = None


class _GitlabProject(Struct, frozen=True):
    path_with_namespace: str
    permissions: _Permissions | None = None
    archived: bool = False
    merge_requests_enabled: bool | None = None


class _Pipeline(Struct, frozen=True):
    id: int
    sha: str
    status: str


class _Job(Struct, frozen=True, kw_only=True):
    id: int
    name: str
    status: str
    allow_failure: bool = False
    web_url: str = ""


class _Position(Struct, frozen=True):
    new_path: str | None = None
    old_path: str | None = None
    new_line: int | None = None
    old_line: int | None = None


class _Note(Struct, frozen=True, kw_only=True):
    id: int
    body: str = ""
    author: _User = _User()
    system: bool = False
    resolvable: bool = False
    resolved: bool = False
    position: _Position | None = None


class _Discussion(Struct, frozen=True):
    id: str
    notes: tuple[_Note, ...] = ()


class GitLab:
    """One project on GitLab."""

    service = "GitLab"
    sign = "!"

    def __init__(self, place: HostedPlace, key: str, clean: Callable[[str], str]) -> None:
        self._place = place
        self._rest = Rest(self.service, place.api, {"private-token": key}, clean, words=WORDS)
        self._project = f"/projects/{quote(place.project, safe='')}"
        self._members: dict[int, bool] = {}

    async def check(self) -> list[Problem]:
        """Ask for the project, and what the token may do there."""
        try:
            found = await self._rest.get(self._project, _GitlabProject)
        except Refused as refused:
            return [explain_unseen(self._place, refused)]
        if found.archived or found.merge_requests_enabled is False:
            why = "is archived" if found.archived else "has merge requests switched off"
            return [Problem(f"{found.path_with_namespace} {why}.", exit_code=2)]
        known = found.permissions
        levels = (
            [one.access_level for one in (known.project_access, known.group_access) if one] if known else []
        )
        if levels and max(levels) < _DEVELOPER:
            return [
                Problem(
                    f"The token may not push to {found.path_with_namespace}.",
                    "Use one of a developer, with the scope api",
                    4,
                )
            ]
        return []

    async def find(self, branch: str) -> list[PullRequest]:
        """Return the merge requests from a branch of this project; those from forks are none of a run."""
        query = {"source_branch": branch, "state": "all"}
        found = await self._rest.list(f"{self._project}/merge_requests", _Request, **query)
        own = [one for one in found if one.source_project_id == one.target_project_id]
        return [_request(one) for one in own if one.source_branch == branch]

    async def read(self, number: int) -> PullRequest:
        """Return a merge request."""
        return _request(await self._rest.get(self._path(number), _Request))

    async def open(self, branch: str, base: str, title: str, body: str, draft: bool) -> PullRequest:
        """Open a merge request; a draft is one whose title says so."""
        asked = {
            "source_branch": branch,
            "target_branch": base,
            "title": f"{_DRAFT}{title}" if draft else title,
            "description": body,
        }
        return _request(await self._rest.send("POST", f"{self._project}/merge_requests", asked, _Request))

    async def rewrite(self, request: PullRequest, body: str) -> None:
        """Replace the description."""
        await self._rest.do("PUT", self._path(request.number), {"description": body})

    async def make_ready(self, request: PullRequest) -> None:
        """Take the word off the title that makes it a draft."""
        title = request.title.removeprefix(_DRAFT)
        await self._rest.do("PUT", self._path(request.number), {"title": title})

    async def relabel(self, request: PullRequest, add: Sequence[str], remove: Sequence[str]) -> None:
        """Add and remove labels."""
        asked = {"add_labels": ",".join(add), "remove_labels": ",".join(remove)}
        await self._rest.do(
            "PUT", self._path(request.number), {name: value for name, value in asked.items() if value}
        )

    async def jobs(self, request: PullRequest) -> CiReport:
        """Read the newest pipeline of the newest commit."""
        try:
            pipelines = await self._rest.list(f"{self._path(request.number)}/pipelines", _Pipeline)
            current = max(
                (one for one in pipelines if one.sha == request.head), key=lambda one: one.id, default=None
            )
            if current is None:
                return CiReport()
            jobs = await self._rest.list(f"{self._project}/pipelines/{current.id}/jobs", _Job)
        except Refused as refused:
            return CiReport(
                unreadable=f"checks unreadable: the token may not read pipelines (HTTP {refused.status})"
            )
        pending = [job.name for job in jobs if job.status in _RUNNING]
        if current.status in _RUNNING and not pending:
            pending = [f"pipeline {current.id}"]
        broken = [job for job in jobs if job.status == "failed" and not job.allow_failure]
        failed = [FailedJob(name=job.name, url=job.web_url, log=await self._log(job)) for job in broken]
        return CiReport(failed=tuple(failed), pending=tuple(pending))

    async def threads(self, request: PullRequest) -> list[ReviewThread]:
        """Return the discussions that can be resolved and are not."""
        found = []
        for one in await self._rest.list(f"{self._path(request.number)}/discussions", _Discussion):
            notes = [note for note in one.notes if not note.system]
            if not notes or not any(note.resolvable and not note.resolved for note in notes):
                continue
            place = notes[0].position or _Position()
            comments = [
                ReviewComment(
                    id=str(note.id),
                    author=note.author.username,
                    text=note.body,
                    url=f"{request.url}#note_{note.id}",
                    member=await self._is_member(note.author),
                )
                for note in notes
            ]
            found.append(
                ReviewThread(
                    id=one.id,
                    comments=tuple(comments),
                    path=place.new_path or place.old_path or "",
                    line=place.new_line or place.old_line,
                )
            )
        return found

    async def reply(self, request: PullRequest, thread: str, text: str, mark: str) -> None:
        """Answer in a discussion, and resolve it."""
        path = f"{self._path(request.number)}/discussions/{thread}"
        known = await self._rest.get(path, _Discussion)
        if not any(mark in note.body for note in known.notes):
            await self._rest.do("POST", f"{path}/notes", {"body": text})
        if any(note.resolvable and not note.resolved for note in known.notes):
            await self._rest.do("PUT", path, {"resolved": True})

    async def _is_member(self, user: _User) -> bool:
        if user.id not in self._members:
            try:
                found = await self._rest.get(f"{self._project}/members/all/{user.id}", _Access)
                self._members[user.id] = found.access_level >= _DEVELOPER
            except Refused:
                self._members[user.id] = False
        return self._members[user.id]

    async def _log(self, job: _Job) -> str:
        try:
            return await self._rest.text(f"{self._project}/jobs/{job.id}/trace")
        except SegueError as error:
            return f"(The log cannot be read: {error.message})"

    def _path(self, number: int) -> str:
        return f"{self._project}/merge_requests/{number}"


def _request(found: _Request) -> PullRequest:
    states: dict[str, Any] = {"merged": "merged", "opened": "open", "locked": "open"}
    return PullRequest(
        number=found.iid,
        url=found.web_url,
        branch=found.source_branch,
        head=found.sha or "",
        base=found.target_branch,
        state=states.get(found.state, "closed"),
        draft=found.draft or found.title.startswith(_DRAFT),
        title=found.title,
        body=found.description or "",
        labels=found.labels,
        conflicts=None if found.detailed_merge_status in _TRIED else found.has_conflicts,
    )
