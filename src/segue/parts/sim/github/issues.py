"""Issues: labels, comments, milestones."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from starlette.responses import JSONResponse, Response

from segue.parts.sim.github.answers import REPO, Exchange, GithubRefusal, Handler, created, invalid, pick
from segue.parts.sim.github.hub import HubRepo
from segue.parts.sim.github.objects import HubComment, HubIssue, HubLabel, HubMilestone


async def list_issues(ask: Exchange) -> Response:
    """List issues, with pull requests among them."""
    repo = ask.repo("issues")
    found = filter_issues(repo, ask.request.query_params)
    return ask.page([ask.show.issue(repo, issue) for issue in found])


def filter_issues(repo: HubRepo, wanted: Mapping[str, str]) -> list[HubIssue]:
    """Return the issues that the parameters name, in their order."""
    state = wanted.get("state", "open")
    labels = [name.strip().lower() for name in wanted.get("labels", "").split(",") if name.strip()]
    found = [
        issue
        for issue in repo.issues.values()
        if state in ("all", issue.state)
        and set(labels) <= {name.lower() for name in issue.labels}
        and _in_milestone(issue, wanted.get("milestone", ""))
        and _is_assigned(issue, wanted.get("assignee", ""))
        and issue.author == wanted.get("creator", issue.author)
        and issue.updated >= parse_time(wanted.get("since", ""))
    ]
    by = {"updated": lambda issue: issue.updated, "comments": lambda issue: len(issue.comments)}
    key = by.get(wanted.get("sort", ""), lambda issue: issue.number)
    return sorted(found, key=key, reverse=wanted.get("direction", "desc") == "desc")


def parse_time(text: str) -> float:
    """Return an instant in seconds; 0 if there is none."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return 0.0


def _in_milestone(issue: HubIssue, wanted: str) -> bool:
    if wanted in ("", "*"):
        return not wanted or issue.milestone is not None
    return issue.milestone is None if wanted == "none" else str(issue.milestone) == wanted


def _is_assigned(issue: HubIssue, wanted: str) -> bool:
    if wanted in ("", "*"):
        return not wanted or bool(issue.assignees)
    return not issue.assignees if wanted == "none" else wanted in issue.assignees


async def create_issue(ask: Exchange) -> Response:
    """Open an issue."""
    repo = ask.repo("issues")
    issue = ask.hub.add_issue(repo, ask.login, ask.text("title", "Issue"), ask.table().get("body"))
    _apply(
        ask, repo, issue, {name: ask.table()[name] for name in ask.table() if name not in ("title", "body")}
    )
    announce(ask, repo, issue, "opened")
    shown = ask.show.issue(repo, issue)
    return created(shown, shown["url"])


async def show_issue(ask: Exchange) -> Response:
    """Show one issue."""
    repo = ask.repo("issues")
    return JSONResponse(ask.show.issue(repo, ask.issue(repo)))


async def edit_issue(ask: Exchange) -> Response:
    """Change an issue."""
    repo = ask.repo("issues")
    issue = ask.issue(repo)
    before = issue.state
    _apply(ask, repo, issue, ask.table())
    action = "edited" if issue.state == before else {"open": "reopened"}.get(issue.state, "closed")
    announce(ask, repo, issue, action)
    return JSONResponse(ask.show.issue(repo, issue))


def _apply(ask: Exchange, repo: HubRepo, issue: HubIssue, body: Mapping[str, Any]) -> None:
    now = time.time()
    if body.get("title", issue.title) != issue.title:
        issue.events.append(("RenamedTitleEvent", ask.login, body["title"], now))
    if body.get("body", issue.body) != issue.body:
        issue.edited = (ask.login, now)
    issue.title = body.get("title", issue.title)
    issue.body = body.get("body", issue.body)
    if "labels" in body:
        put_labels(ask, repo, issue, _names(body["labels"]))
    if "assignees" in body:
        issue.assignees = list(body["assignees"])
    if "milestone" in body:
        issue.milestone = body["milestone"]
    if body.get("state") == "closed" and issue.state == "open":
        issue.close(ask.login, body.get("state_reason") or "completed")
    elif body.get("state") == "open" and issue.state == "closed":
        issue.reopen()
    issue.updated = time.time()


def put_labels(ask: Exchange, repo: HubRepo, issue: HubIssue, names: list[str]) -> None:
    """Give an issue these labels, and note which are new."""
    labels = ask.hub.ensure_labels(repo, names)
    new = [name for name in labels if name not in issue.labels]
    issue.events += [("LabeledEvent", ask.login, name, time.time()) for name in new]
    issue.labels = labels


def _names(labels: Iterable[Any]) -> list[str]:
    return [label if isinstance(label, str) else label["name"] for label in labels]


def announce(ask: Exchange, repo: HubRepo, issue: HubIssue, action: str) -> None:
    """Send a webhook about an issue or a pull request."""
    sender = {"sender": ask.show.user(ask.login)}
    if issue.pull is None:
        ask.hub.announce(repo, "issues", action, lambda: {"issue": ask.show.issue(repo, issue), **sender})
        return
    ask.hub.announce(
        repo,
        "pull_request",
        action,
        lambda: {
            "number": issue.number,
            "pull_request": ask.show.pull(repo, issue, whole=True),
            **sender,
        },
    )


async def list_comments(ask: Exchange) -> Response:
    """List the comments of an issue, oldest first."""
    repo = ask.repo("issues")
    issue = ask.issue(repo)
    after = parse_time(ask.param("since"))
    return ask.page([ask.show.comment(repo, issue, c) for c in issue.comments if c.updated >= after])


async def list_all_comments(ask: Exchange) -> Response:
    """List the comments of all issues of a repository."""
    repo = ask.repo("issues")
    after = parse_time(ask.param("since"))
    found = [(c, issue) for issue in repo.issues.values() for c in issue.comments if c.updated >= after]
    found.sort(key=lambda pair: pair[0].id)
    return ask.page([ask.show.comment(repo, issue, comment) for comment, issue in found])


async def create_comment(ask: Exchange) -> Response:
    """Comment on an issue or pull request."""
    repo = ask.repo("issues")
    issue = ask.issue(repo)
    comment = add_comment(ask, repo, issue, ask.text("body", "IssueComment"))
    return created(ask.show.comment(repo, issue, comment))


def add_comment(ask: Exchange, repo: HubRepo, issue: HubIssue, body: str) -> HubComment:
    """Add a comment and announce it."""
    comment = HubComment(ask.hub.new_id(), ask.login, body)
    issue.comments.append(comment)
    issue.updated = time.time()
    ask.hub.announce(
        repo,
        "issue_comment",
        "created",
        lambda: {
            "issue": ask.show.issue(repo, issue),
            "comment": ask.show.comment(repo, issue, comment),
            "sender": ask.show.user(ask.login),
        },
    )
    return comment


def _find_comment(ask: Exchange, repo: HubRepo) -> tuple[HubIssue, HubComment]:
    found = ((issue, comment) for issue in repo.issues.values() for comment in issue.comments)
    return pick((issue, comment) for issue, comment in found if comment.id == ask.number("comment"))


async def show_comment(ask: Exchange) -> Response:
    """Show one comment."""
    repo = ask.repo("issues")
    return JSONResponse(ask.show.comment(repo, *_find_comment(ask, repo)))


async def edit_comment(ask: Exchange) -> Response:
    """Change a comment."""
    repo = ask.repo("issues")
    issue, comment = _find_comment(ask, repo)
    comment.body, comment.updated = ask.text("body", "IssueComment"), time.time()
    return JSONResponse(ask.show.comment(repo, issue, comment))


async def delete_comment(ask: Exchange) -> Response:
    """Delete a comment."""
    repo = ask.repo("issues")
    issue, comment = _find_comment(ask, repo)
    issue.comments.remove(comment)
    return Response(status_code=204)


async def list_issue_labels(ask: Exchange) -> Response:
    """List the labels of an issue."""
    repo = ask.repo("issues")
    return ask.page(ask.show.labels(repo, ask.issue(repo).labels))


async def add_labels(ask: Exchange) -> Response:
    """Add labels to an issue; PUT replaces those it has."""
    repo = ask.repo("issues")
    issue = ask.issue(repo)
    given = ask.body if isinstance(ask.body, list) else ask.table().get("labels", [])
    kept = [] if ask.request.method == "PUT" else issue.labels
    put_labels(ask, repo, issue, [*kept, *_names(given)])
    issue.updated = time.time()
    announce(ask, repo, issue, "labeled")
    return JSONResponse(ask.show.labels(repo, issue.labels))


async def remove_label(ask: Exchange) -> Response:
    """Take one label, or all, from an issue."""
    repo = ask.repo("issues")
    issue = ask.issue(repo)
    name = ask.request.path_params.get("name")
    if name is None:
        issue.labels = []
        return Response(status_code=204)
    if name.lower() not in (label.lower() for label in issue.labels):
        raise GithubRefusal(404, "Label does not exist")
    issue.labels = [label for label in issue.labels if label.lower() != name.lower()]
    issue.updated = time.time()
    announce(ask, repo, issue, "unlabeled")
    return JSONResponse(ask.show.labels(repo, issue.labels))


async def list_labels(ask: Exchange) -> Response:
    """List the labels of a repository."""
    repo = ask.repo("issues")
    return ask.page([ask.show.label(repo, label) for label in repo.labels])


async def create_label(ask: Exchange) -> Response:
    """Create a label."""
    repo = ask.repo("issues")
    name = ask.text("name", "Label")
    if repo.find_label(name):
        raise invalid("Label", "already_exists", field="name")
    body = ask.table()
    label = HubLabel(ask.hub.new_id(), name, body.get("color") or "ededed", body.get("description") or "")
    repo.labels.append(label)
    return created(ask.show.label(repo, label))


async def show_label(ask: Exchange) -> Response:
    """Show, change or delete one label."""
    repo = ask.repo("issues")
    label = repo.find_label(ask.request.path_params["name"])
    if label is None:
        raise GithubRefusal(404, "Not Found")
    if ask.request.method == "DELETE":
        repo.labels.remove(label)
        for issue in repo.issues.values():
            issue.labels = [name for name in issue.labels if name != label.name]
        return Response(status_code=204)
    if ask.request.method == "PATCH":
        label.color = ask.table().get("color", label.color)
        label.description = ask.table().get("description", label.description)
    return JSONResponse(ask.show.label(repo, label))


async def list_milestones(ask: Exchange) -> Response:
    """List the milestones of a repository."""
    repo = ask.repo("issues")
    state = ask.param("state", "open")
    return ask.page(
        [ask.show.milestone(repo, known.number) for known in repo.milestones if state in ("all", known.state)]
    )


async def create_milestone(ask: Exchange) -> Response:
    """Create a milestone."""
    repo = ask.repo("issues")
    title = ask.text("title", "Milestone")
    if any(known.title == title for known in repo.milestones):
        raise invalid("Milestone", "already_exists", field="title")
    number = len(repo.milestones) + 1
    repo.milestones.append(
        HubMilestone(ask.hub.new_id(), number, title, ask.table().get("description") or "")
    )
    return created(ask.show.milestone(repo, number))


async def show_milestone(ask: Exchange) -> Response:
    """Show one milestone."""
    repo = ask.repo("issues")
    shown = ask.show.milestone(repo, ask.number("number"))
    if shown is None:
        raise GithubRefusal(404, "Not Found")
    return JSONResponse(shown)


ISSUE = f"{REPO}/issues/{{number:int}}"
ROUTES: list[tuple[str, str, Handler]] = [
    ("GET", f"{REPO}/issues", list_issues),
    ("POST", f"{REPO}/issues", create_issue),
    ("GET", f"{REPO}/issues/comments", list_all_comments),
    ("GET", f"{REPO}/issues/comments/{{comment:int}}", show_comment),
    ("PATCH", f"{REPO}/issues/comments/{{comment:int}}", edit_comment),
    ("DELETE", f"{REPO}/issues/comments/{{comment:int}}", delete_comment),
    ("GET", ISSUE, show_issue),
    ("PATCH", ISSUE, edit_issue),
    ("GET", f"{ISSUE}/comments", list_comments),
    ("POST", f"{ISSUE}/comments", create_comment),
    ("GET", f"{ISSUE}/labels", list_issue_labels),
    ("POST", f"{ISSUE}/labels", add_labels),
    ("PUT", f"{ISSUE}/labels", add_labels),
    ("DELETE", f"{ISSUE}/labels", remove_label),
    ("DELETE", f"{ISSUE}/labels/{{name:path}}", remove_label),
    ("GET", f"{REPO}/labels", list_labels),
    ("POST", f"{REPO}/labels", create_label),
    *((method, f"{REPO}/labels/{{name:path}}", show_label) for method in ("GET", "PATCH", "DELETE")),
    ("GET", f"{REPO}/milestones", list_milestones),
    ("POST", f"{REPO}/milestones", create_milestone),
    ("GET", f"{REPO}/milestones/{{number:int}}", show_milestone),
]
