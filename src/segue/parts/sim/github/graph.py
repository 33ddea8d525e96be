"""The objects of the GraphQL API, as tables whose fields are values or functions of arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from segue.parts.sim.github.account import find_issues
from segue.parts.sim.github.answers import Exchange, GithubRefusal
from segue.parts.sim.github.hub import HubRepo
from segue.parts.sim.github.issues import filter_issues
from segue.parts.sim.github.objects import (
    HubCheckRun,
    HubComment,
    HubIssue,
    HubLabel,
    HubPull,
    HubReview,
    HubReviewComment,
    HubThread,
)
from segue.parts.sim.github.pulls import pull_of
from segue.parts.sim.github.shown import SHAPES, show_precise

Arguments = Mapping[str, Any]
Table = dict[str, Any]
_NO_CHECKS = "Resource not accessible by personal access token"


def connect(items: Iterable[Any], arguments: Arguments) -> Table:
    """Return one page of a list, as a connection."""
    whole = list(items)
    start = int(arguments.get("after") or 0)
    end = len(whole)
    if arguments.get("first") is not None:
        end = min(end, start + int(arguments["first"]))
    elif arguments.get("last") is not None:
        end = int(arguments["before"]) if arguments.get("before") else end
        start = max(0, end - int(arguments["last"]))
    part = whole[start:end]
    page = {
        "hasNextPage": end < len(whole),
        "hasPreviousPage": start > 0,
        "startCursor": str(start),
        "endCursor": str(end) if part else None,
    }
    edges = [{"node": item, "cursor": str(start + index + 1)} for index, item in enumerate(part)]
    return {"nodes": part, "edges": edges, "totalCount": len(whole), "pageInfo": page}


def _list(items: Callable[[], Iterable[Any]]) -> Callable[[Arguments], Table]:
    return lambda arguments: connect(items(), arguments)


class Graph:
    """Builds the objects for one request."""

    def __init__(self, ask: Exchange) -> None:
        self._ask = ask
        self._web = ask.show.web
        self._looked: set[int] = set()

    def query(self) -> Table:
        """Return the root of queries."""
        return {
            "__typename": "Query",
            "viewer": lambda _: self.user(self._ask.login),
            "user": lambda given: self.user(given["login"]),
            "repository": self._find_repo,
            "repositoryOwner": lambda given: self.user(given["login"]),
            "node": lambda given: self.node(given["id"]),
            "nodes": lambda given: [self.node(one) for one in given["ids"]],
            "search": self._search,
            "rateLimit": lambda _: {"__typename": "RateLimit", "cost": 1, "remaining": 4999, "limit": 5000},
            "__type": _introspect,
        }

    def _find_repo(self, given: Arguments) -> Table:
        repo = self._ask.hub.repos.get(f"{given['owner']}/{given['name']}".lower())
        if repo is None or not self._ask.caller.sees(repo):
            words = f"Could not resolve to a Repository with the name '{given['owner']}/{given['name']}'."
            raise GithubRefusal(404, words)
        return self.repo(repo)

    def _search(self, given: Arguments) -> Table:
        kind = given.get("type", "ISSUE")
        found = find_issues(self._ask, given["query"]) if kind == "ISSUE" else []
        listed = connect([self.issue(repo, issue) for repo, issue in reversed(found)], given)
        return {**listed, "issueCount": len(found)}

    def find(self, node_id: str) -> tuple[HubRepo, Any]:
        """Return the repository and the object that an id stands for."""
        kind, _, rest = str(node_id).partition("_")
        for repo in self._ask.hub.repos.values():
            if not self._ask.caller.sees(repo):
                continue
            if kind == "R" and str(repo.id) == rest:
                return repo, repo
            for found in _objects(repo, kind):
                if str(found.id) == rest:
                    return repo, found
        raise GithubRefusal(404, f"Could not resolve to a node with the global id of '{node_id}'")

    def node(self, node_id: str) -> Table:
        """Return the object that an id stands for."""
        if node_id.startswith("U_"):
            return self.user(node_id[2:])
        repo, found = self.find(node_id)
        match found:
            case HubRepo():
                return self.repo(repo)
            case HubIssue():
                return self.issue(repo, found)
            case HubLabel():
                return self.label(found)
            case HubThread():
                return self.thread(repo, self.pull_with(repo, found), found)
        raise GithubRefusal(404, f"Could not resolve to a node with the global id of '{node_id}'")

    def pull_with(self, repo: HubRepo, thread: HubThread) -> HubIssue:
        """Return the pull request that a conversation belongs to."""
        return next(issue for issue in repo.pulls if thread in pull_of(issue).threads)

    def user(self, login: str) -> Table:
        """Return a user."""
        kind = "Bot" if login.endswith("[bot]") else "User"
        return SHAPES.fill("User", login=login, type=kind, web=self._web)

    def repo(self, repo: HubRepo) -> Table:
        """Return a repository."""
        visibility = "PRIVATE" if repo.private else "PUBLIC"
        return SHAPES.fill("Repository", repo=repo, web=self._web, visibility=visibility) | {
            "owner": lambda _: self.user(repo.owner),
            "defaultBranchRef": lambda _: self._ref(repo, repo.default_branch),
            "ref": lambda given: self._ref(repo, given["qualifiedName"].removeprefix("refs/heads/")),
            "issue": lambda given: self.issue(repo, self._number(repo, given["number"], pull=False)),
            "pullRequest": lambda given: self.issue(repo, self._number(repo, given["number"], pull=True)),
            "issueOrPullRequest": lambda given: self.issue(repo, self._number(repo, given["number"])),
            "issues": lambda given: self._issues(repo, given),
            "pullRequests": lambda given: self._pulls(repo, given),
            "label": lambda given: self._label(repo, given["name"]),
            "labels": _list(lambda: [self.label(known) for known in repo.labels]),
            "milestones": _list(lambda: [self._milestone(repo, one.number) for one in repo.milestones]),
            "assignableUsers": _list(lambda: [self.user(login) for login in self._logins(repo)]),
            "projects": _list(list),
            "projectsV2": _list(list),
        }

    def _logins(self, repo: HubRepo) -> list[str]:
        known = {repo.owner, self._ask.login, *(issue.author for issue in repo.issues.values())}
        return sorted(known | {token.login for token in self._ask.hub.script.tokens.values()})

    def _number(self, repo: HubRepo, number: Any, pull: bool | None = None) -> HubIssue:
        issue = repo.issues.get(int(number))
        if issue is None or pull not in (None, issue.pull is not None):
            kind = {True: "a PullRequest", False: "an Issue"}.get(bool(pull), "an issue or pull request")
            raise GithubRefusal(404, f"Could not resolve to {kind} with the number of {number}.")
        return issue

    def _issues(self, repo: HubRepo, given: Arguments) -> Table:
        by = given.get("filterBy") or {}
        labels = given.get("labels") or by.get("labels") or []
        states = [state.lower() for state in given.get("states") or by.get("states") or ["OPEN", "CLOSED"]]
        wanted = {"state": "all", "labels": ",".join(labels)}
        if by.get("milestone") is not None:
            wanted["milestone"] = str(by["milestone"])
        if by.get("assignee") is not None:
            wanted["assignee"] = str(by["assignee"])
        found = [i for i in filter_issues(repo, wanted) if i.pull is None and i.state in states]
        return connect([self.issue(repo, issue) for issue in found], given)

    def _pulls(self, repo: HubRepo, given: Arguments) -> Table:
        states = given.get("states") or ["OPEN", "CLOSED", "MERGED"]
        states = [states] if isinstance(states, str) else states
        found = [
            issue
            for issue in reversed(repo.pulls)
            if _state(issue) in states
            and given.get("headRefName") in (None, pull_of(issue).head)
            and given.get("baseRefName") in (None, pull_of(issue).base)
            and {name.lower() for name in given.get("labels") or []} <= {n.lower() for n in issue.labels}
        ]
        return connect([self.issue(repo, issue) for issue in found], given)

    def _ref(self, repo: HubRepo, name: str) -> Table | None:
        sha = repo.branches.get(name)
        return SHAPES.fill("Ref", name=name, sha=sha) if sha is not None else None

    def _label(self, repo: HubRepo, name: str) -> Table | None:
        found = repo.find_label(name)
        return self.label(found) if found else None

    def label(self, label: HubLabel) -> Table:
        """Return a label."""
        return SHAPES.fill("Label", it=label)

    def _milestone(self, repo: HubRepo, number: int | None) -> Table | None:
        found = next((known for known in repo.milestones if known.number == number), None)
        return SHAPES.fill("Milestone", it=found) if found else None

    def _page(self, repo: HubRepo, issue: HubIssue) -> str:
        """Return where people look at an issue or a pull request."""
        return f"{self._web}/{repo.full_name}/{'pull' if issue.pull else 'issues'}/{issue.number}"

    def _told(self, repo: HubRepo, it: Any) -> Table:
        """Return who wrote something."""
        association = repo.associate(it.author)
        return {
            "author": self.user(it.author),
            "association": association,
            "own": it.author == self._ask.login,
        }

    def issue(self, repo: HubRepo, issue: HubIssue) -> Table:
        """Return an issue or a pull request."""
        shown = SHAPES.fill(
            "Issue",
            issue=issue,
            id=str(issue.id),
            kind="PullRequest" if issue.pull else "Issue",
            prefix="PR" if issue.pull else "I",
            web=self._page(repo, issue),
            body=issue.body or "",
            state=_state(issue),
            closed=issue.state == "closed",
            own=issue.author == self._ask.login,
        )
        editor, edited = issue.edited or ("", None)
        shown |= {
            "author": lambda _: self.user(issue.author),
            "repository": lambda _: self.repo(repo),
            "assignees": _list(lambda: [self.user(login) for login in issue.assignees]),
            "labels": _list(
                lambda: [self.label(found) for name in issue.labels if (found := repo.find_label(name))]
            ),
            "milestone": lambda _: self._milestone(repo, issue.milestone),
            "comments": _list(lambda: [self.comment(repo, issue, one) for one in issue.comments]),
            "projectCards": _list(list),
            "projectItems": _list(list),
            "participants": _list(lambda: [self.user(issue.author)]),
            "lastEditedAt": show_precise(edited),
            "editor": self.user(editor) if editor else None,
            "timelineItems": lambda given: connect(self._timeline(issue, given.get("itemTypes")), given),
            "blockedBy": _list(lambda: self._by_id(issue.blocked_by)),
            "blocking": _list(
                lambda: self._by_id([i.id for i in repo.issues.values() if issue.id in i.blocked_by])
            ),
            "subIssues": _list(lambda: self._by_id(issue.sub_issues)),
            "parent": lambda _: next(iter(self._by_id([issue.parent] if issue.parent else [])), None),
        }
        return shown if issue.pull is None else {**shown, **self._pull(repo, issue, issue.pull)}

    def _timeline(self, issue: HubIssue, kinds: Sequence[str] | None) -> list[Table]:
        wanted = {kind.replace("_", "").lower() for kind in kinds or ()}
        return [
            SHAPES.fill("Event", kind=kind, actor=self.user(actor), what=what, at=at)
            for kind, actor, what, at in issue.events
            if not wanted or kind.lower() in wanted
        ]

    def _by_id(self, ids: Sequence[int]) -> list[Table]:
        return [self.issue(*found) for number in ids if (found := self._ask.hub.find_issue(number))]

    def comment(self, repo: HubRepo, issue: HubIssue, comment: HubComment) -> Table:
        """Return a comment."""
        edited = comment.updated > comment.created
        facts = {"web": self._page(repo, issue), **self._told(repo, comment)}
        return SHAPES.fill("IssueComment", it=comment, edited=edited, **facts)

    def _pull(self, repo: HubRepo, issue: HubIssue, pull: HubPull) -> Table:
        def mergeable(_: Arguments) -> str:
            self._look(issue, pull)
            found = self._ask.show.mergeable(issue, pull)
            return {None: "UNKNOWN", True: "MERGEABLE", False: "CONFLICTING"}[found]

        def merge_state(_: Arguments) -> str:
            self._look(issue, pull)
            return self._ask.show.merge_state(repo, issue, pull)

        commit = self._commit(repo, pull.head_sha)
        merged = {"oid": pull.merge_commit} if pull.merge_commit else None
        facts = {"merged": pull.merged_at is not None, "commit": merged, "decision": pull.decide()}
        by = self.user(pull.merged_by) if pull.merged_by else None
        return SHAPES.fill("PullRequest", pull=pull, merged_by=by, **facts) | {
            "headRef": lambda _: self._ref(repo, pull.head),
            "baseRef": lambda _: self._ref(repo, pull.base),
            "headRepository": lambda _: self.repo(repo),
            "headRepositoryOwner": lambda _: self.user(repo.owner),
            "mergeable": mergeable,
            "mergeStateStatus": merge_state,
            "reviewRequests": _list(
                lambda: [{"requestedReviewer": self.user(one)} for one in pull.requested]
            ),
            "reviews": _list(lambda: [self.review(repo, issue, one) for one in pull.reviews]),
            "latestReviews": _list(lambda: [self.review(repo, issue, one) for one in pull.reviews]),
            "reviewThreads": _list(lambda: [self.thread(repo, issue, one) for one in pull.threads]),
            "commits": lambda given: connect([{"commit": commit}], given),
            "statusCheckRollup": lambda _: self._rollup(repo, pull.head_sha),
            "files": _list(list),
            "closingIssuesReferences": _list(list),
        }

    def _look(self, issue: HubIssue, pull: HubPull) -> None:
        """Count that somebody asks whether it can be merged, once in a request."""
        if issue.id not in self._looked:
            self._looked.add(issue.id)
            pull.asked += 1

    def _commit(self, repo: HubRepo, sha: str) -> Table:
        rollup = {"authors": _list(list), "statusCheckRollup": lambda _: self._rollup(repo, sha)}
        return SHAPES.fill("Commit", sha=sha) | rollup

    def _rollup(self, repo: HubRepo, sha: str) -> Table | None:
        if not self._ask.caller.may("checks", "read"):
            raise GithubRefusal(403, _NO_CHECKS)
        state = repo.combine_checks(sha)
        if state is None:
            return None
        contexts = [
            *(self._check(repo, check) for check in repo.latest_checks(sha)),
            *(
                SHAPES.fill("StatusContext", it=status, target=status.target_url or "")
                for status in repo.latest_statuses(sha)
            ),
        ]
        return {"state": state, "contexts": _list(lambda: contexts)}

    def _check(self, repo: HubRepo, check: HubCheckRun) -> Table:
        run = next((run for run in repo.runs if any(job.id == check.job for job in run.jobs)), None)
        workflow = {"workflow": {"name": run.name}, "event": run.event} if run else None
        return SHAPES.fill("CheckRun", it=check, link=self._ask.show.check_link(repo, check), run=workflow)

    def review(self, repo: HubRepo, issue: HubIssue, review: HubReview) -> Table:
        """Return a review."""
        facts = {"web": self._page(repo, issue), **self._told(repo, review)}
        return SHAPES.fill("PullRequestReview", it=review, **facts)

    def thread(self, repo: HubRepo, issue: HubIssue, thread: HubThread) -> Table:
        """Return a conversation about a line."""
        top = thread.comments[0]
        return SHAPES.fill(
            "PullRequestReviewThread",
            thread=thread,
            top=top,
            resolved=thread.resolved_by is not None,
            by=self.user(thread.resolved_by) if thread.resolved_by else None,
            outdated=top.commit != pull_of(issue).head_sha,
            subject="LINE" if top.line else "FILE",
        ) | {
            "pullRequest": lambda _: self.issue(repo, issue),
            "comments": _list(lambda: [self.line_comment(repo, issue, one) for one in thread.comments]),
        }

    def line_comment(self, repo: HubRepo, issue: HubIssue, comment: HubReviewComment) -> Table:
        """Return a comment on a line."""
        facts = {"web": self._page(repo, issue), **self._told(repo, comment)}
        return SHAPES.fill("PullRequestReviewComment", it=comment, id=str(comment.id), **facts)


def _state(issue: HubIssue) -> str:
    if issue.pull is not None and issue.pull.merged_at is not None:
        return "MERGED"
    return issue.state.upper()


def _objects(repo: HubRepo, kind: str) -> Iterable[Any]:
    match kind:
        case "I" | "PR":
            return [issue for issue in repo.issues.values() if (issue.pull is not None) == (kind == "PR")]
        case "LA":
            return repo.labels
        case "PRRT":
            return [thread for issue in repo.pulls for thread in pull_of(issue).threads]
        case "IC":
            return [comment for issue in repo.issues.values() for comment in issue.comments]
        case "PRRC":
            return [c for i in repo.pulls for thread in pull_of(i).threads for c in thread.comments]
    return ()


def _introspect(given: Arguments) -> Table:
    """Answer what clients ask about the schema: newer fields exist."""
    names: dict[str, list[str]] = {
        "Issue": ["stateReason"],
        "PullRequest": ["reviewDecision", "statusCheckRollup", "mergeStateStatus", "isDraft"],
        "Repository": ["pullRequestTemplates", "visibility", "autoMergeAllowed"],
        "StatusCheckRollupContextConnection": [],
        "CheckRun": ["event", "isRequired"],
        "WorkflowRun": ["event"],
    }
    fields = [{"name": name} for name in names.get(given["name"], [])]
    return {"__typename": "__Type", "name": given["name"], "fields": lambda _: fields}
