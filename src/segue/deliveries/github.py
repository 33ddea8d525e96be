"""GitHub: pull requests by REST; drafts and the state of threads, which REST lacks, by GraphQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Literal

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
from segue.system.github import MEMBERS, GithubAccess, GithubLabel, GithubUser, open_graphql, open_rest
from segue.system.http.rest import Refused

_FAILED = frozenset({"failure", "timed_out", "startup_failure"})
_STUCK = frozenset({"cancelled", "action_required", "stale"})
"""Ends that no change of the code helps with: a person must start the job again or allow it."""
_JOB = re.compile(r"/actions/runs/\d+/jobs?/(\d+)")
_READY = (
    "mutation($id: ID!) { markPullRequestReadyForReview(input: {pullRequestId: $id}) { clientMutationId } }"
)
_THREADS = """\
query($owner: String!, $name: String!, $number: Int!) {
  repository(owner: $owner, name: $name) { pullRequest(number: $number) { reviewThreads(first: 100) { nodes {
    id isResolved path line
    comments(first: 100) { nodes { databaseId body url authorAssociation author { login } } }
  } } } }
}"""


class _Home(Struct, frozen=True):
    full_name: str = ""


class _Ref(Struct, frozen=True):
    ref: str
    sha: str
    repo: _Home | None = None


class _Pull(Struct, frozen=True, kw_only=True):
    number: int
    html_url: str
    node_id: str = ""
    state: str
    title: str
    body: str | None = None
    draft: bool = False
    merged_at: str | None = None
    head: _Ref
    base: _Ref
    labels: tuple[GithubLabel, ...] = ()
    mergeable: bool | None = None


class _Rights(Struct, frozen=True):
    push: bool = False


class _GithubProject(Struct, frozen=True):
    full_name: str
    permissions: _Rights | None = None
    archived: bool = False


class _CheckOutput(Struct, frozen=True):
    title: str | None = None
    summary: str | None = None
    text: str | None = None


class _CheckRun(Struct, frozen=True, kw_only=True):
    id: int
    name: str
    status: str
    conclusion: str | None = None
    html_url: str | None = None
    details_url: str | None = None
    output: _CheckOutput = _CheckOutput()


class _Status(Struct, frozen=True):
    context: str
    state: str
    description: str | None = None
    target_url: str | None = None


class _WorkflowRun(Struct, frozen=True):
    id: int


class _WorkflowJob(Struct, frozen=True, kw_only=True):
    id: int
    name: str
    status: str
    conclusion: str | None = None
    html_url: str | None = None


class _Remark(Struct, frozen=True, kw_only=True):
    """A comment or a review."""

    id: int
    body: str | None = None
    user: GithubUser | None = None
    html_url: str = ""
    author_association: str = "NONE"
    state: str = ""
    path: str = ""
    line: int | None = None
    in_reply_to_id: int | None = None


class GitHub:
    """One repository on GitHub."""

    def __init__(self, place: HostedPlace, key: str, clean: Callable[[str], str]) -> None:
        self._place = place
        access = GithubAccess(place.api, key)
        self._rest = open_rest(access, clean, WORDS)
        self._graphql = open_graphql(access, clean, WORDS)
        self._repo = f"/repos/{place.project}"

    async def check(self) -> list[Problem]:
        """Ask for the repository, and what the token may do there."""
        try:
            found = await self._rest.get(self._repo, _GithubProject)
        except Refused as refused:
            return [explain_unseen(self._place, refused)]
        if found.archived:
            return [Problem(f"{found.full_name} is archived, so nothing can be pushed.", exit_code=2)]
        if found.permissions is not None and not found.permissions.push:
            return [
                Problem(
                    f"The token may not push to {found.full_name}.",
                    "Use one with the permissions Contents and Pull requests (write)",
                    4,
                )
            ]
        return []

    async def find(self, branch: str) -> list[PullRequest]:
        """Return the pull requests from a branch of this repository."""
        query = {"head": f"{self._place.owner}:{branch}", "state": "all"}
        found = await self._rest.list(f"{self._repo}/pulls", _Pull, **query)
        # A service that does not know the filter returns all of them, also those from forks.
        own = [one for one in found if one.base.repo is None or one.head.repo == one.base.repo]
        return [_request(one) for one in own if one.head.ref == branch]

    async def read(self, number: int) -> PullRequest:
        """Return a pull request."""
        return _request(await self._rest.get(f"{self._repo}/pulls/{number}", _Pull))

    async def open(self, branch: str, base: str, title: str, body: str, draft: bool) -> PullRequest:
        """Open a pull request."""
        asked = {"head": branch, "base": base, "title": title, "body": body, "draft": draft}
        return _request(await self._rest.send("POST", f"{self._repo}/pulls", asked, _Pull))

    async def rewrite(self, request: PullRequest, body: str) -> None:
        """Replace the body."""
        await self._rest.do("PATCH", f"{self._repo}/pulls/{request.number}", {"body": body})

    async def make_ready(self, request: PullRequest) -> None:
        """Mark a draft as ready for review."""
        await self._ask(_READY, {"id": request.node})

    async def relabel(self, request: PullRequest, add: Sequence[str], remove: Sequence[str]) -> None:
        """Add and remove labels."""
        from urllib.parse import quote

        labels = f"{self._repo}/issues/{request.number}/labels"
        if add:
            await self._rest.do("POST", labels, {"labels": list(add)})
        for name in remove:
            try:
                await self._rest.do("DELETE", f"{labels}/{quote(name, safe='')}")
            except Refused as refused:
                if refused.status != 404:  # somebody else has removed it
                    raise

    async def jobs(self, request: PullRequest) -> CiReport:
        """Read check runs and commit statuses; where the token may not read checks, the jobs of Actions."""
        commit = f"{self._repo}/commits/{request.head}"
        failed: list[FailedJob] = []
        pending: list[str] = []
        unreadable = ""
        try:
            runs = await self._rest.list(f"{commit}/check-runs", _CheckRun, "check_runs", filter="latest")
        except Refused as refused:
            unreadable = f"checks unreadable: the token may not read them (HTTP {refused.status})"
            runs, more = await self._read_actions(request)
            unreadable += f"; {more}" if more else "; the jobs of GitHub Actions were read instead"
        for run in runs:
            if run.status != "completed":
                pending.append(run.name)
            elif run.conclusion in _STUCK:
                pending.append(f"{run.name} ({run.conclusion.replace('_', ' ')})")
            elif run.conclusion in _FAILED:
                failed.append(FailedJob(name=run.name, url=run.html_url or "", log=await self._log(run)))
        try:
            statuses = await self._rest.list(f"{commit}/status", _Status, "statuses")
        except Refused as refused:
            said = f"commit statuses unreadable (HTTP {refused.status})"
            unreadable, statuses = "; ".join(filter(None, (unreadable, said))), []
        for one in statuses:
            if one.state == "pending":
                pending.append(one.context)
            elif one.state != "success":
                failed.append(
                    FailedJob(name=one.context, url=one.target_url or "", log=one.description or one.state)
                )
        return CiReport(failed=tuple(failed), pending=tuple(pending), unreadable=unreadable)

    async def threads(self, request: PullRequest) -> list[ReviewThread]:
        """Return open threads on lines of the change, then reviews that request changes."""
        try:
            inline = await self._read_threads(request)
        except Refused:
            inline = await self._read_comments(request)
        return [*inline, *await self._read_reviews(request)]

    async def reply(self, request: PullRequest, thread: str, text: str, mark: str) -> None:
        """Answer in a thread, or below a review; who reviews resolves."""
        below = thread.startswith("review-")
        comments = f"{self._repo}/{'issues' if below else 'pulls'}/{request.number}/comments"
        if not any(mark in (one.body or "") for one in await self._rest.list(comments, _Remark)):
            where = comments if below else f"{comments}/{thread}/replies"
            await self._rest.do("POST", where, {"body": text})

    async def _read_threads(self, request: PullRequest) -> list[ReviewThread]:
        owner, _, name = self._place.project.partition("/")
        data = await self._ask(_THREADS, {"owner": owner, "name": name, "number": request.number})
        nodes = data["repository"]["pullRequest"]["reviewThreads"]["nodes"]
        found = []
        for node in nodes:
            comments = tuple(
                ReviewComment(
                    id=str(one["databaseId"]),
                    author=(one.get("author") or {}).get("login") or "ghost",
                    text=one.get("body") or "",
                    url=one.get("url") or "",
                    member=one.get("authorAssociation") in MEMBERS,
                )
                for one in node["comments"]["nodes"]
            )
            if comments and not node.get("isResolved"):
                found.append(
                    ReviewThread(
                        id=comments[0].id,
                        comments=comments,
                        path=node.get("path") or "",
                        line=node.get("line"),
                    )
                )
        return found

    async def _read_comments(self, request: PullRequest) -> list[ReviewThread]:
        """Return the threads as REST knows them: all of them, resolved or not."""
        remarks = await self._rest.list(f"{self._repo}/pulls/{request.number}/comments", _Remark)
        found: dict[int, list[_Remark]] = {}
        for one in remarks:
            found.setdefault(one.in_reply_to_id or one.id, []).append(one)
        return [
            ReviewThread(
                id=str(top),
                comments=tuple(map(_comment, several)),
                path=several[0].path,
                line=several[0].line,
            )
            for top, several in found.items()
        ]

    async def _read_reviews(self, request: PullRequest) -> list[ReviewThread]:
        """Return of each person's last review the text, if it requests changes."""
        last: dict[str, _Remark] = {}
        for one in await self._rest.list(f"{self._repo}/pulls/{request.number}/reviews", _Remark):
            if one.state in ("CHANGES_REQUESTED", "APPROVED", "DISMISSED"):
                last[one.user.login if one.user else "ghost"] = one
        return [
            ReviewThread(id=f"review-{one.id}", comments=(_comment(one),), asks_for_changes=True)
            for one in last.values()
            if one.state == "CHANGES_REQUESTED" and (one.body or "").strip()
        ]

    async def _read_actions(self, request: PullRequest) -> tuple[list[_CheckRun], str]:
        """Return the jobs of GitHub Actions for a commit, in the form of checks."""
        try:
            runs = await self._rest.list(
                f"{self._repo}/actions/runs", _WorkflowRun, "workflow_runs", head_sha=request.head
            )
            jobs = [
                job
                for run in runs
                for job in await self._rest.list(
                    f"{self._repo}/actions/runs/{run.id}/jobs", _WorkflowJob, "jobs"
                )
            ]
        except Refused as refused:
            return [], f"nor the jobs of GitHub Actions (HTTP {refused.status})"
        details = "/actions/runs/0/job/{}"
        return [
            _CheckRun(
                id=job.id,
                name=job.name,
                status=job.status,
                conclusion=job.conclusion,
                html_url=job.html_url,
                details_url=details.format(job.id),
            )
            for job in jobs
        ], ""

    async def _log(self, run: _CheckRun) -> str:
        """Return the log of a job of Actions, or what another app reports."""
        said = "\n\n".join(filter(None, (run.output.title, run.output.summary, run.output.text)))
        job = _JOB.search(run.details_url or "")
        if job is None:
            return said or run.conclusion or ""
        try:
            return await self._rest.text(f"{self._repo}/actions/jobs/{job[1]}/logs")
        except SegueError as error:
            return said or f"(The log cannot be read: {error.message})"

    async def _ask(self, query: str, variables: dict[str, Any]) -> dict[str, Any]:
        answer = await self._graphql.send(
            "POST", "/graphql", {"query": query, "variables": variables}, dict[str, Any]
        )
        if answer.get("errors") or not isinstance(answer.get("data"), dict):
            errors = answer.get("errors") or [{"message": "no data"}]
            said = "; ".join(str(one.get("message", "")) for one in errors if isinstance(one, dict))[:400]
            raise Refused(200, said, f"GitHub refuses a question: {said}")
        data: dict[str, Any] = answer["data"]
        return data


def _request(pull: _Pull) -> PullRequest:
    unmerged: Literal["open", "closed"] = "open" if pull.state == "open" else "closed"
    return PullRequest(
        number=pull.number,
        url=pull.html_url,
        branch=pull.head.ref,
        head=pull.head.sha,
        base=pull.base.ref,
        state="merged" if pull.merged_at else unmerged,
        draft=pull.draft,
        title=pull.title,
        body=pull.body or "",
        labels=tuple(one.name for one in pull.labels),
        conflicts=None if pull.mergeable is None else not pull.mergeable,
        node=pull.node_id,
    )


def _comment(one: _Remark) -> ReviewComment:
    return ReviewComment(
        id=str(one.id),
        author=one.user.login if one.user else "ghost",
        text=one.body or "",
        url=one.html_url,
        member=one.author_association in MEMBERS,
    )
