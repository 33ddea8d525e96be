"""How the REST API shows what a repository contains."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from segue.parts.sim.github.hub import Hub, HubRepo
from segue.parts.sim.github.objects import (
    HubComment,
    HubIssue,
    HubLabel,
    HubMilestone,
    HubPull,
    HubReview,
    HubReviewComment,
)


def show_time(seconds: float | None) -> str | None:
    """Write an instant as the API does."""
    return None if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


class Presenter(Struct, frozen=True):
    """Writes objects for one request, whose address all links start with."""

    hub: Hub
    api: str
    web: str
    dated: bool = False
    """Whether the client asked for the version of 2026, which has fewer fields."""

    def repo_url(self, repo: HubRepo) -> str:
        """Return the address of a repository."""
        return f"{self.api}/repos/{repo.full_name}"

    def user(self, login: str) -> dict[str, Any]:
        """Show a user."""
        url = f"{self.api}/users/{login}"
        rest = (
            *("followers", "following", "gists", "starred", "subscriptions", "organizations", "repos"),
            *("events", "received_events"),
        )
        return {
            "login": login,
            "id": zlib.crc32(login.encode()),
            "node_id": f"U_{login}",
            "avatar_url": f"{self.web}/{login}.png",
            "gravatar_id": "",
            "url": url,
            "html_url": f"{self.web}/{login}",
            **{f"{name}_url": f"{url}/{name}" for name in rest},
            "type": "Bot" if login.endswith("[bot]") else "User",
            "site_admin": False,
        }

    def repo(self, repo: HubRepo) -> dict[str, Any]:
        """Show a repository."""
        url, web = self.repo_url(repo), f"{self.web}/{repo.full_name}"
        opened = sum(1 for issue in repo.issues.values() if issue.state == "open")
        zeros = ("forks", "forks_count", "stargazers_count", "watchers", "watchers_count", "size")
        return {
            "id": repo.id,
            "node_id": f"R_{repo.id}",
            "name": repo.name,
            "full_name": repo.full_name,
            "private": repo.private,
            "visibility": "private" if repo.private else "public",
            "owner": self.user(repo.owner),
            "html_url": web,
            "url": url,
            "clone_url": f"{web}.git",
            "ssh_url": f"git@github.com:{repo.full_name}.git",
            "git_url": f"git://github.com/{repo.full_name}.git",
            "description": None,
            "fork": False,
            "default_branch": repo.default_branch,
            "open_issues": opened,
            "open_issues_count": opened,
            "network_count": 0,
            "subscribers_count": 0,
            **dict.fromkeys(zeros, 0),
            **dict.fromkeys(("has_issues", "has_projects", "has_wiki", "has_downloads"), True),
            **dict.fromkeys(("archived", "disabled", "has_pages", "is_template"), False),
            **dict.fromkeys(("homepage", "language", "license", "mirror_url"), None),
            **dict.fromkeys(("allow_merge_commit", "allow_squash_merge"), True),
            **dict.fromkeys(("allow_rebase_merge", "allow_auto_merge", "delete_branch_on_merge"), False),
            "topics": [],
            "issues_url": f"{url}/issues{{/number}}",
            "pulls_url": f"{url}/pulls{{/number}}",
            "labels_url": f"{url}/labels{{/name}}",
            "permissions": {"admin": False, "maintain": False, "push": True, "triage": True, "pull": True},
            **self.times(repo.created, repo.created),
            "pushed_at": show_time(repo.created),
        }

    def label(self, repo: HubRepo, label: HubLabel) -> dict[str, Any]:
        """Show a label."""
        return {
            "id": label.id,
            "node_id": f"LA_{label.id}",
            "url": f"{self.repo_url(repo)}/labels/{label.name}",
            "name": label.name,
            "color": label.color,
            "description": label.description or None,
            "default": False,
        }

    def labels(self, repo: HubRepo, names: Iterable[str]) -> list[dict[str, Any]]:
        """Show the labels of an issue."""
        return [self.label(repo, label) for name in names if (label := repo.find_label(name))]

    def milestone(self, repo: HubRepo, number: int | None) -> dict[str, Any] | None:
        """Show a milestone."""
        found = next((known for known in repo.milestones if known.number == number), None)
        return self._milestone(repo, found) if found else None

    def _milestone(self, repo: HubRepo, milestone: HubMilestone) -> dict[str, Any]:
        counts = [issue.state for issue in repo.issues.values() if issue.milestone == milestone.number]
        url = f"{self.repo_url(repo)}/milestones/{milestone.number}"
        return {
            "url": url,
            "html_url": f"{self.web}/{repo.full_name}/milestone/{milestone.number}",
            "labels_url": f"{url}/labels",
            "id": milestone.id,
            "node_id": f"MI_{milestone.id}",
            "number": milestone.number,
            "title": milestone.title,
            "description": milestone.description or None,
            "state": milestone.state,
            "creator": self.user(repo.owner),
            "open_issues": counts.count("open"),
            "closed_issues": counts.count("closed"),
            "closed_at": None,
            "due_on": None,
            **self.times(milestone.created, milestone.created),
        }

    def issue(self, repo: HubRepo, issue: HubIssue) -> dict[str, Any]:
        """Show an issue or, among issues, a pull request."""
        url = f"{self.repo_url(repo)}/issues/{issue.number}"
        shown = {
            **self._issue_links(repo, url),
            **self._common(repo, issue),
            "html_url": f"{self.web}/{repo.full_name}/issues/{issue.number}",
            "comments": len(issue.comments),
            "state_reason": issue.state_reason,
            "closed_by": self.user(issue.closed_by) if issue.closed_by else None,
            "author_association": repo.associate(issue.author),
            "issue_dependencies_summary": self._dependencies(repo, issue),
            "sub_issues_summary": self._sub_issues(issue),
            "reactions": {"url": f"{url}/reactions", "total_count": 0},
            "performed_via_github_app": None,
            "type": None,
        }
        if issue.pull is not None:
            web = f"{self.web}/{repo.full_name}/pull/{issue.number}"
            shown["html_url"] = web
            shown["draft"] = issue.pull.draft
            shown["pull_request"] = {
                "url": f"{self.repo_url(repo)}/pulls/{issue.number}",
                "html_url": web,
                "diff_url": f"{web}.diff",
                "patch_url": f"{web}.patch",
                "merged_at": show_time(issue.pull.merged_at),
            }
        return shown

    def _common(self, repo: HubRepo, issue: HubIssue) -> dict[str, Any]:
        """Show what issues and pull requests share."""
        assignees = [self.user(login) for login in issue.assignees]
        return {
            "id": issue.id,
            "node_id": f"{'PR' if issue.pull else 'I'}_{issue.id}",
            "number": issue.number,
            "state": issue.state,
            "title": issue.title,
            "body": issue.body,
            "user": self.user(issue.author),
            "labels": self.labels(repo, issue.labels),
            **({} if self.dated else {"assignee": assignees[0] if assignees else None}),
            "assignees": assignees,
            "milestone": self.milestone(repo, issue.milestone),
            "locked": False,
            "active_lock_reason": None,
            **self.times(issue.created, issue.updated),
            "closed_at": show_time(issue.closed_at),
        }

    def _issue_links(self, repo: HubRepo, url: str) -> dict[str, str]:
        return {
            "url": url,
            "repository_url": self.repo_url(repo),
            "labels_url": f"{url}/labels{{/name}}",
            "comments_url": f"{url}/comments",
            "events_url": f"{url}/events",
            "timeline_url": f"{url}/timeline",
        }

    def _dependencies(self, repo: HubRepo, issue: HubIssue) -> dict[str, int]:
        blockers = [found[1] for number in issue.blocked_by if (found := self.hub.find_issue(number))]
        blocking = [other for other in repo.issues.values() if issue.id in other.blocked_by]
        return {
            "blocked_by": sum(1 for other in blockers if other.state == "open"),
            "total_blocked_by": len(blockers),
            "blocking": sum(1 for other in blocking if other.state == "open"),
            "total_blocking": len(blocking),
        }

    def _sub_issues(self, issue: HubIssue) -> dict[str, int]:
        found = [known[1].state for number in issue.sub_issues if (known := self.hub.find_issue(number))]
        done = found.count("closed")
        percent = round(100 * done / len(found)) if found else 0
        return {"total": len(found), "completed": done, "percent_completed": percent}

    def comment(self, repo: HubRepo, issue: HubIssue, comment: HubComment) -> dict[str, Any]:
        """Show a comment on an issue."""
        kind = "pull" if issue.pull else "issues"
        return {
            "id": comment.id,
            "node_id": f"IC_{comment.id}",
            "url": f"{self.repo_url(repo)}/issues/comments/{comment.id}",
            "html_url": f"{self.web}/{repo.full_name}/{kind}/{issue.number}#issuecomment-{comment.id}",
            "issue_url": f"{self.repo_url(repo)}/issues/{issue.number}",
            "body": comment.body,
            "user": self.user(comment.author),
            "author_association": repo.associate(comment.author),
            "performed_via_github_app": None,
            **self.times(comment.created, comment.updated),
        }

    def pull(self, repo: HubRepo, issue: HubIssue, *, whole: bool) -> dict[str, Any]:
        """Show a pull request; lists leave out whether it can be merged."""
        pull = issue.pull
        assert pull is not None
        url = f"{self.repo_url(repo)}/pulls/{issue.number}"
        web = f"{self.web}/{repo.full_name}/pull/{issue.number}"
        inline = [comment for thread in pull.threads for comment in thread.comments]
        shown = {
            **self._common(repo, issue),
            "url": url,
            "html_url": web,
            "diff_url": f"{web}.diff",
            "patch_url": f"{web}.patch",
            "issue_url": f"{self.repo_url(repo)}/issues/{issue.number}",
            "commits_url": f"{url}/commits",
            "review_comments_url": f"{url}/comments",
            "review_comment_url": f"{self.repo_url(repo)}/pulls/comments{{/number}}",
            "comments_url": f"{self.repo_url(repo)}/issues/{issue.number}/comments",
            "statuses_url": f"{self.repo_url(repo)}/statuses/{pull.head_sha}",
            "draft": pull.draft,
            "head": self._branch(repo, pull.head, pull.head_sha),
            "base": self._branch(repo, pull.base, pull.base_sha),
            "merged_at": show_time(pull.merged_at),
            "requested_reviewers": [self.user(login) for login in pull.requested],
            "requested_teams": [],
            "author_association": repo.associate(issue.author),
            "auto_merge": None,
            "_links": {"self": {"href": url}, "html": {"href": web}},
        }
        if not self.dated:
            shown["merge_commit_sha"] = pull.merge_commit
        if whole:
            shown |= {
                "merged": pull.merged_at is not None,
                "merged_by": self.user(pull.merged_by) if pull.merged_by else None,
                "mergeable": self.mergeable(issue, pull),
                "mergeable_state": self.merge_state(repo, issue, pull).lower(),
                "rebaseable": None,
                "comments": len(issue.comments),
                "review_comments": len(inline),
                "maintainer_can_modify": False,
                "commits": 1,
                "additions": 0,
                "deletions": 0,
                "changed_files": 0,
            }
        return shown

    def mergeable(self, issue: HubIssue, pull: HubPull) -> bool | None:
        """Return whether it can be merged; None: it is not known yet, ask again."""
        if issue.state != "open" or pull.asked <= self.hub.script.mergeable_after:
            return None
        return not pull.conflicts

    def merge_state(self, repo: HubRepo, issue: HubIssue, pull: HubPull) -> str:
        """Return what keeps it from being merged, as GraphQL names it."""
        if self.mergeable(issue, pull) is None:
            return "UNKNOWN"
        if pull.conflicts:
            return "DIRTY"
        if pull.draft:
            return "DRAFT"
        if pull.decide() == "CHANGES_REQUESTED":
            return "BLOCKED"
        return "CLEAN" if repo.combine_checks(pull.head_sha) in ("SUCCESS", None) else "UNSTABLE"

    def _branch(self, repo: HubRepo, name: str, sha: str) -> dict[str, Any]:
        return {
            "label": f"{repo.owner}:{name}",
            "ref": name,
            "sha": sha,
            "user": self.user(repo.owner),
            "repo": self.repo(repo),
        }

    def review(self, repo: HubRepo, issue: HubIssue, review: HubReview) -> dict[str, Any]:
        """Show a review."""
        web = f"{self.web}/{repo.full_name}/pull/{issue.number}"
        url = f"{self.repo_url(repo)}/pulls/{issue.number}"
        return {
            "id": review.id,
            "node_id": f"PRR_{review.id}",
            "user": self.user(review.author),
            "body": review.body,
            "state": review.state,
            "html_url": f"{web}#pullrequestreview-{review.id}",
            "pull_request_url": url,
            "commit_id": review.commit,
            "author_association": repo.associate(review.author),
            "_links": {"html": {"href": web}, "pull_request": {"href": url}},
            **({} if review.state == "PENDING" else {"submitted_at": show_time(review.submitted)}),
        }

    def review_comment(self, repo: HubRepo, issue: HubIssue, comment: HubReviewComment) -> dict[str, Any]:
        """Show a comment on a line."""
        url = f"{self.repo_url(repo)}/pulls/comments/{comment.id}"
        web = f"{self.web}/{repo.full_name}/pull/{issue.number}#discussion_r{comment.id}"
        return {
            "id": comment.id,
            "node_id": f"PRRC_{comment.id}",
            "pull_request_review_id": comment.review,
            "url": url,
            "html_url": web,
            "pull_request_url": f"{self.repo_url(repo)}/pulls/{issue.number}",
            "diff_hunk": "@@ -1 +1 @@",
            "path": comment.path,
            "line": comment.line,
            "original_line": comment.line,
            "side": comment.side,
            "start_line": None,
            "position": 1,
            "original_position": 1,
            "subject_type": "line" if comment.line else "file",
            "commit_id": issue.pull.head_sha if issue.pull else comment.commit,
            "original_commit_id": comment.commit,
            **({"in_reply_to_id": comment.reply_to} if comment.reply_to else {}),
            "user": self.user(comment.author),
            "body": comment.body,
            "author_association": repo.associate(comment.author),
            "reactions": {"url": f"{url}/reactions", "total_count": 0},
            "_links": {"self": {"href": url}, "html": {"href": web}},
            **self.times(comment.created, comment.updated),
        }

    def times(self, created: float, updated: float) -> dict[str, str | None]:
        """Show when something was created and changed."""
        return {"created_at": show_time(created), "updated_at": show_time(updated)}
