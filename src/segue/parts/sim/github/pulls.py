"""Pull requests: create, list, change, merge; reviews and comments on lines."""

from __future__ import annotations

import re
import time
from typing import Any

from starlette.responses import JSONResponse, Response

from segue.parts.sim.github.answers import REPO, Exchange, GithubRefusal, Handler, created, invalid, pick
from segue.parts.sim.github.hub import HubRepo
from segue.parts.sim.github.issues import announce
from segue.parts.sim.github.objects import HubIssue, HubPull, HubReview, HubReviewComment, HubThread

_CLOSES = re.compile(r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?)\s+#(\d+)", re.IGNORECASE)
_EVENTS = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}


def pull_of(issue: HubIssue) -> HubPull:
    """Return what makes an issue a pull request; raises a 404 if it is none."""
    if issue.pull is None:
        raise GithubRefusal(404, "Not Found")
    return issue.pull


async def _find(ask: Exchange) -> tuple[HubRepo, HubIssue, HubPull]:
    repo = ask.repo("pull_requests")
    await ask.hub.refresh(repo)
    issue = ask.issue(repo)
    return repo, issue, pull_of(issue)


async def list_pulls(ask: Exchange) -> Response:
    """List pull requests."""
    repo = ask.repo("pull_requests")
    await ask.hub.refresh(repo)
    state, head, base = ask.param("state", "open"), ask.param("head"), ask.param("base")
    found = [
        issue
        for issue in repo.pulls
        if state in ("all", issue.state)
        and head.lower() in ("", f"{repo.owner}:{pull_of(issue).head}".lower())
        and base in ("", pull_of(issue).base)
    ]
    ascending = ask.param("direction") == "asc" or (ask.param("sort") not in ("", "created"))
    found.sort(key=lambda issue: issue.number, reverse=not ascending)
    return ask.page([ask.show.pull(repo, issue, whole=False) for issue in found])


async def create_pull(ask: Exchange) -> Response:
    """Open a pull request."""
    repo = ask.repo("pull_requests")
    body = ask.table()
    issue = await open_pull(
        ask,
        repo,
        title=ask.text("title", "PullRequest"),
        head=ask.text("head", "PullRequest"),
        base=ask.text("base", "PullRequest"),
        body=body.get("body"),
        draft=bool(body.get("draft")),
    )
    shown = ask.show.pull(repo, issue, whole=True)
    return created(shown, shown["url"])


async def open_pull(
    ask: Exchange, repo: HubRepo, *, title: str, head: str, base: str, body: str | None, draft: bool
) -> HubIssue:
    """Open a pull request, or refuse it as GitHub does."""
    await ask.hub.refresh(repo)
    head = head.removeprefix(f"{repo.owner}:")
    for name, value in (("head", head), ("base", base)):
        if value not in repo.branches:
            raise invalid("PullRequest", "invalid", field=name)
    if any(pull_of(i).head == head and pull_of(i).base == base for i in repo.pulls if i.state == "open"):
        raise _refuse(f"A pull request already exists for {repo.owner}:{head}.")
    pull = HubPull(head, base, repo.branches[head], repo.branches[base], draft)
    if repo.bare is not None:
        if await repo.bare.contains(pull.base_sha, pull.head_sha):
            raise _refuse(f"No commits between {base} and {head}")
        pull.conflicts = not await repo.bare.can_merge(pull.base_sha, pull.head_sha)
    issue = ask.hub.add_issue(repo, ask.login, title, body)
    issue.pull = pull
    announce(ask, repo, issue, "opened")
    return issue


def _refuse(words: str) -> GithubRefusal:
    return invalid("PullRequest", "custom", message=words)


async def show_pull(ask: Exchange) -> Response:
    """Show one pull request; asking starts the look whether it can be merged."""
    repo, issue, pull = await _find(ask)
    pull.asked += 1
    shown = ask.show.pull(repo, issue, whole=True)
    if repo.bare is not None:
        base = pull.base_sha
        files = await repo.bare.list_files(base, pull.head_sha)
        shown["commits"] = len(await repo.bare.list_commits(base, pull.head_sha))
        shown["changed_files"] = len(files)
        shown["additions"] = sum(file.additions for file in files)
        shown["deletions"] = sum(file.deletions for file in files)
    return JSONResponse(shown)


async def edit_pull(ask: Exchange) -> Response:
    """Change a pull request; `draft` is not among what can be changed."""
    repo, issue, pull = await _find(ask)
    body = ask.table()
    issue.title, issue.body = body.get("title", issue.title), body.get("body", issue.body)
    if (base := body.get("base")) is not None:
        if base not in repo.branches:
            raise _refuse("base is invalid")
        pull.base, pull.base_sha, pull.asked = base, repo.branches[base], 0
    action = "edited"
    if body.get("state") == "closed" and issue.state == "open":
        issue.close(ask.login)
        action = "closed"
    elif body.get("state") == "open" and issue.state == "closed":
        if pull.merged_at is not None:
            raise _refuse("It was merged")
        issue.reopen()
        action = "reopened"
    issue.updated = time.time()
    announce(ask, repo, issue, action)
    return JSONResponse(ask.show.pull(repo, issue, whole=True))


async def list_commits(ask: Exchange) -> Response:
    """List the commits of a pull request."""
    repo, _, pull = await _find(ask)
    found = await repo.bare.list_commits(pull.base_sha, pull.head_sha) if repo.bare else []
    return ask.page([ask.show.commit(repo, commit) for commit in found])


async def list_files(ask: Exchange) -> Response:
    """List the files that a pull request changes."""
    repo, _, pull = await _find(ask)
    found = await repo.bare.list_files(pull.base_sha, pull.head_sha) if repo.bare else []
    return ask.page(
        [
            {
                "sha": pull.head_sha,
                "filename": file.name,
                "status": file.status,
                "additions": file.additions,
                "deletions": file.deletions,
                "changes": file.additions + file.deletions,
            }
            for file in found
        ]
    )


async def is_merged(ask: Exchange) -> Response:
    """Answer 204 if the pull request was merged."""
    _, _, pull = await _find(ask)
    if pull.merged_at is None:
        raise GithubRefusal(404, "Not Found")
    return Response(status_code=204)


async def merge(ask: Exchange) -> Response:
    """Merge a pull request."""
    repo, issue, pull = await _find(ask)
    ask.repo("contents")
    body = ask.table()
    if body.get("sha") not in (None, pull.head_sha):
        raise GithubRefusal(409, "Head branch was modified. Review and try the merge again.")
    commit = await merge_pull(ask, repo, issue, body.get("merge_method", "merge"))
    return JSONResponse({"sha": commit, "merged": True, "message": "Pull Request successfully merged"})


async def merge_pull(ask: Exchange, repo: HubRepo, issue: HubIssue, method: str) -> str:
    """Merge a pull request, or refuse it as GitHub does."""
    pull = pull_of(issue)
    if issue.state != "open" or pull.draft or pull.conflicts:
        raise GithubRefusal(405, "Pull Request is not mergeable")
    words = f"Merge pull request #{issue.number} from {repo.owner}/{pull.head}\n\n{issue.title}"
    commit: str | None = f"{issue.id:040x}"
    if repo.bare is not None:
        commit = await repo.bare.merge(pull.base, pull.base_sha, pull.head_sha, words, method)
    if commit is None:
        raise GithubRefusal(405, "Pull Request is not mergeable")
    pull.merged_by, pull.merged_at, pull.merge_commit = ask.login, time.time(), commit
    issue.close(ask.login)
    repo.branches[pull.base] = commit
    announce(ask, repo, issue, "closed")
    if pull.base == repo.default_branch:
        for number in _CLOSES.findall(issue.body or ""):
            other = repo.issues.get(int(number))
            if other is not None and other.state == "open":
                other.close(ask.login, "completed")
                announce(ask, repo, other, "closed")
    return commit


async def update_branch(ask: Exchange) -> Response:
    """Merge the base into the branch of a pull request."""
    repo, _, pull = await _find(ask)
    if ask.table().get("expected_head_sha") not in (None, pull.head_sha):
        raise GithubRefusal(422, f"expected head sha didn't match current head ref {pull.head_sha}")
    if repo.bare is not None:
        made = await repo.bare.update(pull.head, pull.base_sha, pull.head_sha)
        if made is None:
            raise GithubRefusal(422, "merge conflict between base and head")
    return JSONResponse({"message": "Updating pull request branch.", "url": ""}, 202)


async def request_reviewers(ask: Exchange) -> Response:
    """Ask people for a review."""
    repo, issue, pull = await _find(ask)
    for login in ask.table().get("reviewers", []):
        if login == issue.author:
            raise GithubRefusal(422, "Review cannot be requested from pull request author.")
        if login not in pull.requested:
            pull.requested.append(login)
    return created(ask.show.pull(repo, issue, whole=False))


async def list_reviews(ask: Exchange) -> Response:
    """List the reviews of a pull request, oldest first."""
    repo, issue, pull = await _find(ask)
    return ask.page([ask.show.review(repo, issue, review) for review in pull.reviews])


async def create_review(ask: Exchange) -> Response:
    """Review a pull request, with comments on lines."""
    repo, issue, _ = await _find(ask)
    body = ask.table()
    event = body.get("event", "COMMENT")
    review = add_review(ask, repo, issue, event, body.get("body") or "")
    for comment in body.get("comments", []):
        add_thread(ask, repo, issue, review, comment)
    return JSONResponse(ask.show.review(repo, issue, review))


def add_review(ask: Exchange, repo: HubRepo, issue: HubIssue, event: str, body: str) -> HubReview:
    """Add a review and announce it."""
    pull = pull_of(issue)
    if event not in _EVENTS:
        raise GithubRefusal(422, "Unprocessable Entity", errors=[f"Event {event} is unknown"])
    if event != "COMMENT" and ask.login == issue.author:
        raise GithubRefusal(422, "Unprocessable Entity", errors=["Can not approve your own pull request"])
    review = HubReview(ask.hub.new_id(), ask.login, _EVENTS[event], body, pull.head_sha)
    pull.reviews.append(review)
    pull.requested = [login for login in pull.requested if login != ask.login]
    issue.updated = time.time()
    ask.hub.announce(
        repo,
        "pull_request_review",
        "submitted",
        lambda: {
            "review": ask.show.review(repo, issue, review),
            "pull_request": ask.show.pull(repo, issue, whole=False),
            "sender": ask.show.user(ask.login),
        },
    )
    return review


async def dismiss_review(ask: Exchange) -> Response:
    """Dismiss a review."""
    repo, issue, pull = await _find(ask)
    review = pick(known for known in pull.reviews if known.id == ask.number("review"))
    review.state = "DISMISSED"
    return JSONResponse(ask.show.review(repo, issue, review))


async def list_review_comments(ask: Exchange) -> Response:
    """List the comments on lines, oldest first."""
    repo, issue, pull = await _find(ask)
    found = [comment for thread in pull.threads for comment in thread.comments]
    wanted = ask.request.path_params.get("review")
    return ask.page(
        [
            ask.show.review_comment(repo, issue, comment)
            for comment in sorted(found, key=lambda comment: comment.id)
            if wanted is None or comment.review == int(wanted)
        ]
    )


async def create_review_comment(ask: Exchange) -> Response:
    """Comment on a line, or reply to such a comment."""
    repo, issue, pull = await _find(ask)
    text = ask.text("body", "PullRequestReviewComment")
    top = ask.request.path_params.get("comment") or ask.table().get("in_reply_to")
    if top is not None:
        thread = pick(known for known in pull.threads if known.comments[0].id == int(top))
        return created(ask.show.review_comment(repo, issue, reply(ask, repo, issue, thread, text)))
    review = HubReview(ask.hub.new_id(), ask.login, "COMMENTED", "", pull.head_sha)
    pull.reviews.append(review)
    made = add_thread(ask, repo, issue, review, ask.table())
    return created(ask.show.review_comment(repo, issue, made.comments[0]))


def add_thread(ask: Exchange, repo: HubRepo, issue: HubIssue, review: HubReview, body: Any) -> HubThread:
    """Begin a conversation about a line."""
    path, line = body.get("path"), body.get("line") or body.get("position")
    if not path:
        raise invalid("PullRequestReviewComment", "missing_field", field="path")
    comment = HubReviewComment(
        ask.hub.new_id(),
        review.id,
        ask.login,
        body["body"],
        path,
        line,
        body.get("side") or "RIGHT",
        pull_of(issue).head_sha,
    )
    thread = HubThread(ask.hub.new_id(), [comment])
    pull_of(issue).threads.append(thread)
    _announce_comment(ask, repo, issue, comment)
    return thread


def reply(ask: Exchange, repo: HubRepo, issue: HubIssue, thread: HubThread, text: str) -> HubReviewComment:
    """Reply in a conversation."""
    top = thread.comments[0]
    review = HubReview(ask.hub.new_id(), ask.login, "COMMENTED", "", pull_of(issue).head_sha)
    pull_of(issue).reviews.append(review)
    comment = HubReviewComment(
        ask.hub.new_id(), review.id, ask.login, text, top.path, top.line, top.side, top.commit, top.id
    )
    thread.comments.append(comment)
    _announce_comment(ask, repo, issue, comment)
    return comment


def _announce_comment(ask: Exchange, repo: HubRepo, issue: HubIssue, comment: HubReviewComment) -> None:
    issue.updated = time.time()
    ask.hub.announce(
        repo,
        "pull_request_review_comment",
        "created",
        lambda: {
            "comment": ask.show.review_comment(repo, issue, comment),
            "pull_request": ask.show.pull(repo, issue, whole=False),
            "sender": ask.show.user(ask.login),
        },
    )


async def edit_review_comment(ask: Exchange) -> Response:
    """Show or change a comment on a line."""
    repo = ask.repo("pull_requests")
    issue, comment = pick(
        (issue, comment)
        for issue in repo.pulls
        for thread in pull_of(issue).threads
        for comment in thread.comments
        if comment.id == ask.number("comment")
    )
    if ask.request.method == "PATCH":
        comment.body, comment.updated = ask.text("body", "Comment"), time.time()
    return JSONResponse(ask.show.review_comment(repo, issue, comment))


_PULL = f"{REPO}/pulls/{{number:int}}"
ROUTES: list[tuple[str, str, Handler]] = [
    ("GET", f"{REPO}/pulls", list_pulls),
    ("POST", f"{REPO}/pulls", create_pull),
    ("GET", f"{REPO}/pulls/comments/{{comment:int}}", edit_review_comment),
    ("PATCH", f"{REPO}/pulls/comments/{{comment:int}}", edit_review_comment),
    ("GET", _PULL, show_pull),
    ("PATCH", _PULL, edit_pull),
    ("GET", f"{_PULL}/commits", list_commits),
    ("GET", f"{_PULL}/files", list_files),
    ("GET", f"{_PULL}/merge", is_merged),
    ("PUT", f"{_PULL}/merge", merge),
    ("PUT", f"{_PULL}/update-branch", update_branch),
    ("POST", f"{_PULL}/requested_reviewers", request_reviewers),
    ("GET", f"{_PULL}/reviews", list_reviews),
    ("POST", f"{_PULL}/reviews", create_review),
    ("GET", f"{_PULL}/reviews/{{review:int}}/comments", list_review_comments),
    ("PUT", f"{_PULL}/reviews/{{review:int}}/dismissals", dismiss_review),
    ("GET", f"{_PULL}/comments", list_review_comments),
    ("POST", f"{_PULL}/comments", create_review_comment),
    ("POST", f"{_PULL}/comments/{{comment:int}}/replies", create_review_comment),
]
