"""What merge requests need of GitLab's API: projects, requests, discussions, pipelines."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import PlainTextResponse

from segue.parts.sim.shapes import Json, Shapes
from segue.parts.trackers.gitlab_sim.state import (
    Lab,
    LabDiscussion,
    LabNote,
    LabPipeline,
    LabProject,
    LabRequest,
    new_discussion,
)

T = TypeVar("T")
_SHAPES = Shapes("segue.parts.trackers.gitlab_sim")


class LabRefusal(Exception):
    """A request that is refused."""

    def __init__(self, status: int, message: Any) -> None:
        super().__init__(message)
        self.status, self.message = status, message


class Call:
    """One request to the API, after its path was taken apart."""

    def __init__(self, lab: Lab, request: Request, body: Json, user: str) -> None:
        self.lab, self.request, self.user = lab, request, user
        self.given: Json = {**dict(request.query_params), **body}
        self.url = f"{request.url.scheme}://{request.headers['host']}"

    def want(self, name: str) -> str:
        """Return a parameter that must be there."""
        if not str(self.given.get(name, "")).strip():
            raise LabRefusal(400, {"error": f"{name} is missing"})
        return str(self.given[name])

    def require_level(self, level: int) -> None:
        """Refuse users who may not do this."""
        if self.lab.level_of(self.user) < level:
            raise LabRefusal(403, "403 Forbidden")

    def show_user(self, name: str) -> Json:
        """Show a user."""
        return _SHAPES.fill("user", id=self.lab.user_id(name), name=name, url=self.url)

    def show_request(self, project: LabProject, request: LabRequest) -> Json:
        """Show a merge request."""
        return _SHAPES.fill(
            "request",
            it=request,
            project=project,
            url=self.url,
            labels=sorted(request.labels),
            author=self.show_user(request.author),
            merge_status="cannot_be_merged" if request.conflicts else "can_be_merged",
            status=_merge_status(project, request),
            settled=not request.is_discussed,
        )

    def show_discussion(self, one: LabDiscussion) -> Json:
        """Show a discussion."""
        notes = [self.show_note(note) for note in one.notes]
        return {"id": one.id, "individual_note": one.single, "notes": notes}

    def show_note(self, note: LabNote) -> Json:
        """Show a note."""
        kind = "DiscussionNote" if note.resolvable else None
        kind = "DiffNote" if note.position else kind
        shown = _SHAPES.fill("note", it=note, kind=kind, author=self.show_user(note.author))
        if note.resolvable:
            shown["resolved"] = note.resolved
        return shown | ({"position": note.position} if note.position else {})

    def show_pipeline(self, project: LabProject, pipeline: LabPipeline) -> Json:
        """Show a pipeline."""
        return _SHAPES.fill("pipeline", it=pipeline, project=project, url=self.url)


def _merge_status(project: LabProject, request: LabRequest) -> str:
    newest = next((one for one in reversed(project.pipelines) if one.sha == request.sha), None)
    for status, applies in (
        ("not_open", request.state != "opened"),
        ("conflict", request.conflicts),
        ("draft_status", request.draft),
        ("ci_still_running", newest is not None and newest.status in ("running", "pending", "created")),
        ("ci_must_pass", newest is not None and newest.status == "failed"),
        ("discussions_not_resolved", request.is_discussed),
    ):
        if applies:
            return status
    return "mergeable"


Handler = Callable[[Call, LabProject, Sequence[str]], Awaitable[Any]]


async def _project(call: Call, project: LabProject, _parts: Sequence[str]) -> Any:
    default = await project.bare.find_default() or "main"
    group, _, name = project.path.rpartition("/")
    level = call.lab.level_of(call.user)
    access = {"access_level": level, "notification_level": 3} if level else None
    facts = {"name": name, "group": group, "default": default, "access": access, "url": call.url}
    return _SHAPES.fill("project", project=project, **facts)


async def _list_requests(call: Call, project: LabProject, _parts: Sequence[str]) -> Any:
    given = call.given
    return [
        call.show_request(project, one)
        for one in sorted(project.requests.values(), key=lambda one: -one.iid)
        if given.get("state", "all") in ("all", one.state)
        and given.get("source_branch", one.source) == one.source
        and given.get("target_branch", one.target) == one.target
    ]


async def _open_request(call: Call, project: LabProject, _parts: Sequence[str]) -> Any:
    call.require_level(30)
    source, target, title = (call.want(name) for name in ("source_branch", "target_branch", "title"))
    branches = await project.bare.read()
    for name, branch in (("source_branch", source), ("target_branch", target)):
        if branch not in branches:
            raise LabRefusal(400, {name: ["does not exist"]})
    for one in project.requests.values():
        if (one.source, one.target, one.state) == (source, target, "opened"):
            said = f"Another open merge request already exists for this source branch: !{one.iid}"
            raise LabRefusal(409, [said])
    iid = max(project.requests, default=0) + 1
    description = str(call.given.get("description") or "")
    request = LabRequest(call.lab.new_id(), iid, call.user, source, target, title, description)
    request.labels = _labels(call.given.get("labels"))
    project.requests[iid] = request
    await project.refresh()
    return call.show_request(project, request)


async def _get_request(call: Call, project: LabProject, parts: Sequence[str]) -> Any:
    return call.show_request(project, _find_request(project, parts))


async def _change_request(call: Call, project: LabProject, parts: Sequence[str]) -> Any:
    call.require_level(30)
    request, given = _find_request(project, parts), call.given
    request.title = str(given.get("title", request.title))
    request.description = str(given.get("description", request.description) or "")
    request.target = str(given.get("target_branch", request.target))
    if "labels" in given:
        request.labels = _labels(given["labels"])
    removed = _labels(given.get("remove_labels"))
    request.labels = [*dict.fromkeys([*request.labels, *_labels(given.get("add_labels"))])]
    request.labels = [one for one in request.labels if one not in removed]
    event = given.get("state_event")
    if event in ("close", "reopen"):
        request.state = "closed" if event == "close" else "opened"
    return call.show_request(project, request)


async def _merge_request(call: Call, project: LabProject, parts: Sequence[str]) -> Any:
    call.require_level(30)
    request = _find_request(project, parts)
    branches = await project.bare.read()
    if request.state != "opened" or request.conflicts or request.draft:
        raise LabRefusal(405, "405 Method Not Allowed")
    message = f"Merge branch '{request.source}' into '{request.target}'"
    merged = await project.bare.merge(request.target, branches[request.target], request.sha, message, "merge")
    if merged is None:
        raise LabRefusal(422, "Branch cannot be merged")
    request.state = "merged"
    return call.show_request(project, request)


async def _list_discussions(call: Call, project: LabProject, parts: Sequence[str]) -> Any:
    return [call.show_discussion(one) for one in _find_request(project, parts).discussions]


async def _get_discussion(call: Call, project: LabProject, parts: Sequence[str]) -> Any:
    return call.show_discussion(_find_discussion(project, parts))


async def _open_discussion(call: Call, project: LabProject, parts: Sequence[str]) -> Any:
    position = call.given.get("position")
    note = LabNote(call.lab.new_id(), call.user, call.want("body"), resolvable=True)
    note.position = dict(position) if isinstance(position, Mapping) else None
    discussion = new_discussion(note)
    _find_request(project, parts).discussions.append(discussion)
    return call.show_discussion(discussion)


async def _resolve_discussion(call: Call, project: LabProject, parts: Sequence[str]) -> Any:
    call.require_level(30)
    discussion, resolved = _find_discussion(project, parts), call.want("resolved").lower() == "true"
    for note in discussion.notes:
        note.resolved = resolved if note.resolvable else False
    return call.show_discussion(discussion)


async def _add_to_discussion(call: Call, project: LabProject, parts: Sequence[str]) -> Any:
    discussion = _find_discussion(project, parts)
    note = LabNote(call.lab.new_id(), call.user, call.want("body"), discussion.notes[0].resolvable)
    discussion.notes.append(note)
    return call.show_note(note)


async def _list_notes(call: Call, project: LabProject, parts: Sequence[str]) -> Any:
    notes = [note for one in _find_request(project, parts).discussions for note in one.notes]
    return [call.show_note(note) for note in reversed(notes)]


async def _add_note(call: Call, project: LabProject, parts: Sequence[str]) -> Any:
    note = LabNote(call.lab.new_id(), call.user, call.want("body"))
    _find_request(project, parts).discussions.append(new_discussion(note, single=True))
    return call.show_note(note)


async def _list_pipelines(call: Call, project: LabProject, parts: Sequence[str]) -> Any:
    source = _find_request(project, parts).source
    found = [one for one in reversed(project.pipelines) if one.ref == source]
    return [call.show_pipeline(project, one) for one in found]


async def _list_jobs(call: Call, project: LabProject, parts: Sequence[str]) -> Any:
    pipeline = _pick(one for one in project.pipelines if str(one.id) == parts[0])
    facts = {"it": pipeline, "project": project, "url": call.url}
    return [_SHAPES.fill("job", job=job, **facts) for job in pipeline.jobs]


async def _trace(_call: Call, project: LabProject, parts: Sequence[str]) -> Any:
    job = _pick(job for one in project.pipelines for job in one.jobs if str(job.id) == parts[0])
    return PlainTextResponse(job.log)


async def _member(call: Call, _project: LabProject, parts: Sequence[str]) -> Any:
    name = next((name for name, number in call.lab.people.items() if str(number) == parts[0]), "")
    level = call.lab.level_of(name) if name else 0
    if not level:
        raise LabRefusal(404, "404 Not found")
    return {**call.show_user(name), "access_level": level}


async def _approvals(_call: Call, project: LabProject, parts: Sequence[str]) -> Any:
    request = _find_request(project, parts)
    return {"iid": request.iid, "approved": True, "approvals_required": 0, "approved_by": []}


def _find_request(project: LabProject, parts: Sequence[str]) -> LabRequest:
    return _pick(one for one in project.requests.values() if str(one.iid) == parts[0])


def _find_discussion(project: LabProject, parts: Sequence[str]) -> LabDiscussion:
    found = (one for one in _find_request(project, parts).discussions if one.id == parts[1])
    return _pick(found, "404 Discussion Not Found")


def _pick(found: Iterable[T], said: str = "404 Not found") -> T:
    for one in found:
        return one
    raise LabRefusal(404, said)


def _labels(given: Any) -> list[str]:
    listed = given if isinstance(given, list) else str(given or "").split(",")
    return [str(one).strip() for one in listed if str(one).strip()]


_REQUEST = r"/merge_requests/(\d+)"
_DISCUSSION = rf"{_REQUEST}/discussions/([0-9a-f]+)"
ROUTES: tuple[tuple[str, str, Handler], ...] = (
    ("GET", "", _project),
    ("GET", "/merge_requests", _list_requests),
    ("POST", "/merge_requests", _open_request),
    ("GET", _REQUEST, _get_request),
    ("PUT", _REQUEST, _change_request),
    ("PUT", rf"{_REQUEST}/merge", _merge_request),
    ("GET", rf"{_REQUEST}/discussions", _list_discussions),
    ("POST", rf"{_REQUEST}/discussions", _open_discussion),
    ("GET", _DISCUSSION, _get_discussion),
    ("PUT", _DISCUSSION, _resolve_discussion),
    ("POST", rf"{_DISCUSSION}/notes", _add_to_discussion),
    ("GET", rf"{_REQUEST}/notes", _list_notes),
    ("POST", rf"{_REQUEST}/notes", _add_note),
    ("GET", rf"{_REQUEST}/pipelines", _list_pipelines),
    ("GET", rf"{_REQUEST}/approvals", _approvals),
    ("GET", r"/pipelines/(\d+)/jobs", _list_jobs),
    ("GET", r"/jobs/(\d+)/trace", _trace),
    ("GET", r"/members/all/(\d+)", _member),
)
