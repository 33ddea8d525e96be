"""How issues are related: what blocks what, and sub-issues."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.responses import JSONResponse, Response

from segue.parts.sim.github.answers import Exchange, GithubRefusal, Handler, created
from segue.parts.sim.github.hub import HubRepo
from segue.parts.sim.github.issues import ISSUE
from segue.parts.sim.github.objects import HubIssue

_MOST_SUB_ISSUES = 100


def _page_of_ids(ask: Exchange, ids: Sequence[int]) -> Response:
    found = [pair for number in ids if (pair := ask.hub.find_issue(number))]
    return ask.page([ask.show.issue(repo, issue) for repo, issue in found])


async def list_blockers(ask: Exchange) -> Response:
    """List the issues that block an issue."""
    return _page_of_ids(ask, ask.issue(ask.repo("issues")).blocked_by)


async def list_blocked(ask: Exchange) -> Response:
    """List the issues that an issue blocks."""
    repo = ask.repo("issues")
    issue = ask.issue(repo)
    return _page_of_ids(ask, [other.id for other in repo.issues.values() if issue.id in other.blocked_by])


def _other(ask: Exchange, name: str) -> tuple[HubRepo, HubIssue]:
    """Return the issue whose id, not its number, the body names."""
    given = ask.table().get(name)
    found = ask.hub.find_issue(given) if isinstance(given, int) else None
    if found is None:
        raise GithubRefusal(422, f"The provided {name} does not exist")
    return found


async def add_blocker(ask: Exchange) -> Response:
    """Say that an issue is blocked by another."""
    repo = ask.repo("issues")
    issue, (_, other) = ask.issue(repo), _other(ask, "issue_id")
    if other.id in issue.blocked_by or other.id == issue.id:
        raise GithubRefusal(422, "Validation Failed", errors=["The dependency already exists or is itself"])
    issue.blocked_by.append(other.id)
    return created(ask.show.issue(repo, issue))


async def remove_blocker(ask: Exchange) -> Response:
    """Say that an issue is no longer blocked by another."""
    repo = ask.repo("issues")
    issue, other = ask.issue(repo), ask.number("other")
    if other not in issue.blocked_by:
        raise GithubRefusal(404, "Not Found")
    issue.blocked_by.remove(other)
    return JSONResponse(ask.show.issue(repo, issue))


async def list_sub_issues(ask: Exchange) -> Response:
    """List the sub-issues of an issue."""
    return _page_of_ids(ask, ask.issue(ask.repo("issues")).sub_issues)


async def add_sub_issue(ask: Exchange) -> Response:
    """Add a sub-issue."""
    repo = ask.repo("issues")
    issue, (other_repo, other) = ask.issue(repo), _other(ask, "sub_issue_id")
    if len(issue.sub_issues) >= _MOST_SUB_ISSUES:
        raise GithubRefusal(422, "Parent cannot have more than 100 sub-issues")
    if other.parent is not None and not ask.table().get("replace_parent"):
        raise GithubRefusal(422, "Sub-issue may only have one parent")
    if other.parent is not None and (parent := ask.hub.find_issue(other.parent)):
        parent[1].sub_issues.remove(other.id)
    issue.sub_issues.append(other.id)
    other.parent = issue.id
    return created(ask.show.issue(other_repo, other))


async def remove_sub_issue(ask: Exchange) -> Response:
    """Take a sub-issue out of its parent."""
    repo = ask.repo("issues")
    issue, (other_repo, other) = ask.issue(repo), _other(ask, "sub_issue_id")
    if other.id not in issue.sub_issues:
        raise GithubRefusal(404, "Not Found")
    issue.sub_issues.remove(other.id)
    other.parent = None
    return JSONResponse(ask.show.issue(other_repo, other))


async def show_parent(ask: Exchange) -> Response:
    """Show the issue that an issue is a part of."""
    parent = ask.issue(ask.repo("issues")).parent
    found = ask.hub.find_issue(parent) if parent is not None else None
    if found is None:
        raise GithubRefusal(404, "Not Found")
    return JSONResponse(ask.show.issue(*found))


ROUTES: list[tuple[str, str, Handler]] = [
    ("GET", f"{ISSUE}/dependencies/blocked_by", list_blockers),
    ("POST", f"{ISSUE}/dependencies/blocked_by", add_blocker),
    ("DELETE", f"{ISSUE}/dependencies/blocked_by/{{other:int}}", remove_blocker),
    ("GET", f"{ISSUE}/dependencies/blocking", list_blocked),
    ("GET", f"{ISSUE}/sub_issues", list_sub_issues),
    ("POST", f"{ISSUE}/sub_issues", add_sub_issue),
    ("DELETE", f"{ISSUE}/sub_issue", remove_sub_issue),
    ("GET", f"{ISSUE}/parent", show_parent),
]
