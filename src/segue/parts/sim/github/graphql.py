"""GraphQL without a schema: a query is parsed and laid over tables; mutations change the state."""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from graphql import (
    ArgumentNode,
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLSyntaxError,
    InlineFragmentNode,
    OperationDefinitionNode,
    OperationType,
    SelectionNode,
    SelectionSetNode,
    get_operation_ast,
    parse,
    value_from_ast_untyped,
)
from starlette.responses import JSONResponse, Response

from segue.parts.sim.github.answers import Exchange, GithubRefusal
from segue.parts.sim.github.graph import Graph, Table
from segue.parts.sim.github.hub import HubRepo
from segue.parts.sim.github.issues import add_comment, announce, put_labels
from segue.parts.sim.github.objects import HubIssue, HubThread
from segue.parts.sim.github.pulls import add_review, add_thread, merge_pull, open_pull, pull_of, reply

_CONCRETE = frozenset(
    {
        *("Issue", "PullRequest", "CheckRun", "StatusContext", "User", "Bot", "Organization", "Commit"),
        *("Team", "Mannequin", "EnterpriseUserAccount", "Repository", "Label", "PullRequestReviewThread"),
        *("PullRequestReview", "PullRequestReviewComment", "IssueComment", "Milestone", "Tag"),
    }
)
"""Types of which an object has one; any other name is an interface that every object has."""


async def answer_graphql(ask: Exchange) -> Response:
    """Answer a query or mutation; errors are beside the data, with status 200."""
    body = ask.table()
    try:
        document = parse(str(body.get("query", "")), no_location=True)
    except (GraphQLSyntaxError, RecursionError) as error:
        return JSONResponse({"errors": [{"message": f"Parse error: {error}"}]})
    operation = get_operation_ast(document, body.get("operationName"))
    if operation is None or operation.operation is OperationType.SUBSCRIPTION:
        return JSONResponse({"errors": [{"message": "Parse error: there is no such operation"}]})
    for repo in ask.hub.repos.values():
        if ask.caller.sees(repo):
            await ask.hub.refresh(repo)
    graph = Graph(ask)
    reader = _Reader(ask, document, {**_read_defaults(operation), **(body.get("variables") or {})})
    is_query = operation.operation is OperationType.QUERY
    root = graph.query() if is_query else _mutations(ask, graph)
    data = await reader.read(root, operation.selection_set, ())
    return JSONResponse({"data": data, **({"errors": reader.errors} if reader.errors else {})})


def _read_defaults(operation: OperationDefinitionNode) -> dict[str, Any]:
    return {
        known.variable.name.value: value_from_ast_untyped(known.default_value)
        if known.default_value
        else None
        for known in operation.variable_definitions or ()
    }


class _Reader:
    """Lays the selections of a query over tables."""

    def __init__(self, ask: Exchange, document: DocumentNode, variables: dict[str, Any]) -> None:
        self._ask = ask
        self._fragments = {
            node.name.value: node for node in document.definitions if isinstance(node, FragmentDefinitionNode)
        }
        self._variables = variables
        self.errors: list[dict[str, Any]] = []

    async def read(self, value: Any, selections: SelectionSetNode | None, path: tuple[str | int, ...]) -> Any:
        """Return the selected part of a value."""
        if isinstance(value, list):
            return [await self.read(item, selections, (*path, index)) for index, item in enumerate(value)]
        if not isinstance(value, dict) or selections is None:
            return value
        shown: dict[str, Any] = {}
        for node in self._flatten(value, selections):
            name = (node.alias or node.name).value
            found = await self._field(value, node, (*path, name))
            before = shown.get(name)
            both = isinstance(before, dict) and isinstance(found, dict)
            shown[name] = {**before, **found} if both and isinstance(before, dict) else found
        return shown

    def _flatten(self, value: Table, selections: SelectionSetNode) -> list[FieldNode]:
        """Return the fields, those of fragments for this type among them."""
        found: list[FieldNode] = []
        for node in selections.selections:
            if not self._is_wanted(node):
                continue
            if isinstance(node, FieldNode):
                found.append(node)
                continue
            fragment = self._fragments[node.name.value] if isinstance(node, FragmentSpreadNode) else node
            assert isinstance(fragment, FragmentDefinitionNode | InlineFragmentNode)
            on = fragment.type_condition.name.value if fragment.type_condition else ""
            if on not in _CONCRETE or on == value.get("__typename"):
                found += self._flatten(value, fragment.selection_set)
        return found

    def _is_wanted(self, node: SelectionNode) -> bool:
        asked = {one.name.value: self._fill(one.arguments).get("if") for one in node.directives or ()}
        return bool(asked.get("include", True)) and not asked.get("skip", False)

    def _fill(self, arguments: Iterable[ArgumentNode] | None) -> dict[str, Any]:
        """Return arguments with their variables replaced."""
        return {one.name.value: value_from_ast_untyped(one.value, self._variables) for one in arguments or ()}

    async def _field(self, value: Table, node: FieldNode, path: tuple[str | int, ...]) -> Any:
        name = node.name.value
        if name in ("__typename", "clientMutationId"):
            return value.get(name)
        if name not in value:
            self._ask.hub.unknown_fields.append(f"{value.get('__typename', '?')}.{name}")
            return None
        found = value[name]
        if not callable(found):
            return await self.read(found, node.selection_set, path)
        try:
            found = found(self._fill(node.arguments))
            found = await found if inspect.isawaitable(found) else found
        except GithubRefusal as refusal:
            kind = {404: "NOT_FOUND", 403: "FORBIDDEN"}.get(refusal.status, "UNPROCESSABLE")
            words = _words(refusal)
            self.errors.append({"type": kind, "path": list(path), "message": words})
            return None
        return await self.read(found, node.selection_set, path)


def _words(refusal: GithubRefusal) -> str:
    """Return what a mutation says, which names the reason and not the status."""
    for error in refusal.errors:
        return (
            str(error.get("message") or f"{error.get('field')} is invalid")
            if isinstance(error, dict)
            else str(error)
        )
    return refusal.message


def _mutations(ask: Exchange, graph: Graph) -> Table:
    """Return the root of mutations: `addComment` is the method `add_comment`."""
    known = Mutations(ask, graph)

    def call(name: str) -> Callable[[Mapping[str, Any]], Awaitable[Table]]:
        mutate = getattr(known, name)
        return lambda given: mutate(given["input"])

    names = [name for name in vars(Mutations) if not name.startswith("_")]
    camel = {re.sub("_(.)", lambda found: found[1].upper(), name): name for name in names}
    return {"__typename": "Mutation", **{shown: call(name) for shown, name in camel.items()}}


class Mutations:
    """What clients may change with GraphQL."""

    def __init__(self, ask: Exchange, graph: Graph) -> None:
        self._ask = ask
        self._graph = graph

    def _allow(self, what: str) -> None:
        if not self._ask.caller.may(what, "write"):
            raise GithubRefusal(403, "Resource not accessible by personal access token")

    def _find(self, node_id: str) -> tuple[HubRepo, HubIssue]:
        repo, issue = self._graph.find(node_id)
        self._allow("issues" if issue.pull is None else "pull_requests")
        return repo, issue

    def _thread(self, given: Mapping[str, Any], name: str) -> tuple[HubRepo, HubIssue, HubThread]:
        self._allow("pull_requests")
        repo, thread = self._graph.find(given[name])
        return repo, self._graph.pull_with(repo, thread), thread

    def _subject(self, repo: HubRepo, issue: HubIssue) -> Table:
        shown = self._graph.issue(repo, issue)
        return {"issue": shown, "pullRequest": shown, "labelable": shown}

    async def add_comment(self, given: Mapping[str, Any]) -> Table:
        """Comment on an issue."""
        repo, issue = self._find(given["subjectId"])
        comment = add_comment(self._ask, repo, issue, given["body"])
        shown = self._graph.comment(repo, issue, comment)
        return {"commentEdge": {"node": shown}, "subject": self._graph.issue(repo, issue)}

    async def update_issue_comment(self, given: Mapping[str, Any]) -> Table:
        """Change a comment."""
        self._allow("issues")
        repo, comment = self._graph.find(given["id"])
        comment.body, comment.updated = given["body"], time.time()
        issue = next(issue for issue in repo.issues.values() if comment in issue.comments)
        return {"issueComment": self._graph.comment(repo, issue, comment)}

    async def create_issue(self, given: Mapping[str, Any]) -> Table:
        """Open an issue."""
        self._allow("issues")
        repo, _ = self._graph.find(given["repositoryId"])
        issue = self._ask.hub.add_issue(repo, self._ask.login, given["title"], given.get("body"))
        self._apply(repo, issue, given)
        announce(self._ask, repo, issue, "opened")
        return self._subject(repo, issue)

    async def update_issue(self, given: Mapping[str, Any]) -> Table:
        """Change an issue or a pull request."""
        repo, issue = self._find(given.get("id") or given["pullRequestId"])
        issue.title, issue.body = given.get("title", issue.title), given.get("body", issue.body)
        self._apply(repo, issue, given)
        announce(self._ask, repo, issue, "edited")
        return self._subject(repo, issue)

    def _apply(self, repo: HubRepo, issue: HubIssue, given: Mapping[str, Any]) -> None:
        if given.get("labelIds") is not None:
            issue.labels = [self._graph.find(one)[1].name for one in given["labelIds"]]
        if given.get("assigneeIds") is not None:
            issue.assignees = [one.removeprefix("U_") for one in given["assigneeIds"]]
        if given.get("milestoneId"):
            wanted = given["milestoneId"].removeprefix("MI_")
            issue.milestone = next((m.number for m in repo.milestones if str(m.id) == wanted), None)
        issue.updated = time.time()

    async def close_issue(self, given: Mapping[str, Any]) -> Table:
        """Close an issue or a pull request."""
        repo, issue = self._find(given.get("issueId") or given["pullRequestId"])
        issue.close(self._ask.login, (given.get("stateReason") or "completed").lower())
        announce(self._ask, repo, issue, "closed")
        return self._subject(repo, issue)

    async def reopen_issue(self, given: Mapping[str, Any]) -> Table:
        """Open an issue or a pull request again."""
        repo, issue = self._find(given.get("issueId") or given["pullRequestId"])
        issue.reopen()
        announce(self._ask, repo, issue, "reopened")
        return self._subject(repo, issue)

    async def add_labels_to_labelable(self, given: Mapping[str, Any]) -> Table:
        """Add labels."""
        repo, issue = self._find(given["labelableId"])
        names = [self._graph.find(one)[1].name for one in given["labelIds"]]
        put_labels(self._ask, repo, issue, [*issue.labels, *names])
        announce(self._ask, repo, issue, "labeled")
        return self._subject(repo, issue)

    async def remove_labels_from_labelable(self, given: Mapping[str, Any]) -> Table:
        """Take labels away."""
        repo, issue = self._find(given["labelableId"])
        names = {self._graph.find(one)[1].name for one in given["labelIds"]}
        issue.labels = [name for name in issue.labels if name not in names]
        announce(self._ask, repo, issue, "unlabeled")
        return self._subject(repo, issue)

    async def add_blocked_by(self, given: Mapping[str, Any]) -> Table:
        """Say that an issue is blocked by another."""
        repo, issue = self._find(given["issueId"])
        other = self._graph.find(given["blockingIssueId"])[1]
        if other.id not in issue.blocked_by:
            issue.blocked_by.append(other.id)
        return self._subject(repo, issue)

    async def remove_blocked_by(self, given: Mapping[str, Any]) -> Table:
        """Say that an issue is no longer blocked by another."""
        repo, issue = self._find(given["issueId"])
        other = self._graph.find(given["blockingIssueId"])[1]
        issue.blocked_by = [known for known in issue.blocked_by if known != other.id]
        return self._subject(repo, issue)

    async def add_sub_issue(self, given: Mapping[str, Any]) -> Table:
        """Add a sub-issue."""
        repo, issue = self._find(given["issueId"])
        other = self._graph.find(given["subIssueId"])[1]
        other.parent = issue.id
        if other.id not in issue.sub_issues:
            issue.sub_issues.append(other.id)
        return {**self._subject(repo, issue), "subIssue": self._graph.issue(repo, other)}

    async def create_pull_request(self, given: Mapping[str, Any]) -> Table:
        """Open a pull request."""
        self._allow("pull_requests")
        repo, _ = self._graph.find(given["repositoryId"])
        issue = await open_pull(
            self._ask,
            repo,
            title=given["title"],
            head=given["headRefName"],
            base=given["baseRefName"],
            body=given.get("body"),
            draft=bool(given.get("draft")),
        )
        return self._subject(repo, issue)

    async def mark_pull_request_ready_for_review(self, given: Mapping[str, Any]) -> Table:
        """Say that a draft is ready for review."""
        return self._set_draft(given, draft=False)

    async def convert_pull_request_to_draft(self, given: Mapping[str, Any]) -> Table:
        """Make a pull request a draft."""
        return self._set_draft(given, draft=True)

    def _set_draft(self, given: Mapping[str, Any], *, draft: bool) -> Table:
        repo, issue = self._find(given["pullRequestId"])
        pull_of(issue).draft = draft
        announce(self._ask, repo, issue, "converted_to_draft" if draft else "ready_for_review")
        return self._subject(repo, issue)

    async def merge_pull_request(self, given: Mapping[str, Any]) -> Table:
        """Merge a pull request."""
        repo, issue = self._find(given["pullRequestId"])
        if given.get("expectedHeadOid") not in (None, "", pull_of(issue).head_sha):
            raise GithubRefusal(409, "Head branch was modified. Review and try the merge again.")
        await merge_pull(self._ask, repo, issue, (given.get("mergeMethod") or "MERGE").lower())
        return self._subject(repo, issue)

    async def add_pull_request_review(self, given: Mapping[str, Any]) -> Table:
        """Review a pull request."""
        repo, issue = self._find(given["pullRequestId"])
        event = given.get("event") or "COMMENT"
        review = add_review(self._ask, repo, issue, event, given.get("body") or "")
        return {"pullRequestReview": self._graph.review(repo, issue, review)}

    async def request_reviews(self, given: Mapping[str, Any]) -> Table:
        """Ask people for a review."""
        repo, issue = self._find(given["pullRequestId"])
        for user in given.get("userIds") or []:
            login = user.removeprefix("U_")
            if login not in pull_of(issue).requested:
                pull_of(issue).requested.append(login)
        return self._subject(repo, issue)

    async def add_pull_request_review_thread(self, given: Mapping[str, Any]) -> Table:
        """Begin a conversation about a line."""
        repo, issue = self._find(given["pullRequestId"])
        review = add_review(self._ask, repo, issue, "COMMENT", "")
        thread = add_thread(self._ask, repo, issue, review, given)
        return {"thread": self._graph.thread(repo, issue, thread)}

    async def add_pull_request_review_thread_reply(self, given: Mapping[str, Any]) -> Table:
        """Reply in a conversation."""
        repo, issue, thread = self._thread(given, "pullRequestReviewThreadId")
        comment = reply(self._ask, repo, issue, thread, given["body"])
        return {"comment": self._graph.line_comment(repo, issue, comment)}

    async def resolve_review_thread(self, given: Mapping[str, Any]) -> Table:
        """Resolve a conversation."""
        return self._set_resolved(given, by=self._ask.login)

    async def unresolve_review_thread(self, given: Mapping[str, Any]) -> Table:
        """Open a conversation again."""
        return self._set_resolved(given, by=None)

    def _set_resolved(self, given: Mapping[str, Any], by: str | None) -> Table:
        repo, issue, thread = self._thread(given, "threadId")
        thread.resolved_by = by
        shown = self._graph.thread(repo, issue, thread)
        self._ask.hub.announce(
            repo,
            "pull_request_review_thread",
            "resolved" if by else "unresolved",
            {"thread": {"node_id": shown["id"]}, "number": issue.number},
        )
        return {"thread": shown}

    update_pull_request = update_issue
    close_pull_request = close_issue
    reopen_pull_request = reopen_issue
