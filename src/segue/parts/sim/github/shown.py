"""How the REST API shows what a repository contains; `shapes.json` has the fields of each object."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from segue.parts.sim.github.hub import Hub, HubRepo
from segue.parts.sim.github.objects import (
    HubCheckRun,
    HubComment,
    HubIssue,
    HubJob,
    HubLabel,
    HubPull,
    HubReview,
    HubReviewComment,
    HubRun,
    HubStatus,
)
from segue.parts.sim.github.repository import CommitFacts
from segue.parts.sim.shapes import Json, Shapes, show_time


def show_precise(seconds: float | None) -> str | None:
    """Write an instant with its fraction, so that what follows within a second is in order."""
    return None if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S.%fZ}"


SHAPES = Shapes("segue.parts.sim.github", p=show_precise)


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

    def fill(self, shape: str, repo: HubRepo, /, **facts: Any) -> Json:
        """Return an object of a repository, by its shape."""
        places = {"url": self.repo_url(repo), "web": f"{self.web}/{repo.full_name}"}
        return SHAPES.fill(shape, **{"repo": repo, **places, **facts})

    def user(self, login: str) -> Json:
        """Show a user."""
        kind = "Bot" if login.endswith("[bot]") else "User"
        facts = {"id": zlib.crc32(login.encode()), "type": kind}
        return SHAPES.fill("user", login=login, api=self.api, web=self.web, **facts)

    def repo(self, repo: HubRepo) -> Json:
        """Show a repository."""
        opened = sum(1 for issue in repo.issues.values() if issue.state == "open")
        visibility = "private" if repo.private else "public"
        return self.fill("repo", repo, owner=self.user(repo.owner), opened=opened, visibility=visibility)

    def label(self, repo: HubRepo, label: HubLabel) -> Json:
        """Show a label."""
        return self.fill("label", repo, label=label)

    def labels(self, repo: HubRepo, names: Iterable[str]) -> list[Json]:
        """Show the labels of an issue."""
        return [self.label(repo, label) for name in names if (label := repo.find_label(name))]

    def milestone(self, repo: HubRepo, number: int | None) -> Json | None:
        """Show a milestone."""
        found = next((known for known in repo.milestones if known.number == number), None)
        if found is None:
            return None
        states = [issue.state for issue in repo.issues.values() if issue.milestone == number]
        return self.fill(
            "milestone",
            repo,
            it=found,
            url=f"{self.repo_url(repo)}/milestones/{number}",
            creator=self.user(repo.owner),
            opened=states.count("open"),
            closed=states.count("closed"),
        )

    def issue(self, repo: HubRepo, issue: HubIssue) -> Json:
        """Show an issue or, among issues, a pull request."""
        shown = self._common(repo, issue) | self.fill(
            "issue",
            repo,
            issue=issue,
            url=f"{self.repo_url(repo)}/issues/{issue.number}",
            repo_url=self.repo_url(repo),
            comments=len(issue.comments),
            closed_by=self.user(issue.closed_by) if issue.closed_by else None,
            dependencies=self._dependencies(repo, issue),
            sub_issues=self._sub_issues(issue),
        )
        if issue.pull is not None:
            shown |= self.fill("issue of pull", repo, pull=issue.pull, **self._places(repo, issue))
        return shown

    def _places(self, repo: HubRepo, issue: HubIssue) -> dict[str, str]:
        """Return where a pull request is, for programs and for people."""
        return {
            "url": f"{self.repo_url(repo)}/pulls/{issue.number}",
            "web": f"{self.web}/{repo.full_name}/pull/{issue.number}",
        }

    def _common(self, repo: HubRepo, issue: HubIssue) -> Json:
        """Show what issues and pull requests share."""
        assignees = [self.user(login) for login in issue.assignees]
        shown = self.fill(
            "common",
            repo,
            issue=issue,
            kind="PR" if issue.pull else "I",
            user=self.user(issue.author),
            labels=self.labels(repo, issue.labels),
            assignees=assignees,
            milestone=self.milestone(repo, issue.milestone),
            association=repo.associate(issue.author),
        )
        return shown if self.dated else {**shown, "assignee": assignees[0] if assignees else None}

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

    def comment(self, repo: HubRepo, issue: HubIssue, comment: HubComment) -> Json:
        """Show a comment on an issue."""
        facts = {"user": self.user(comment.author), "association": repo.associate(comment.author)}
        kind = "pull" if issue.pull else "issues"
        return self.fill("comment", repo, issue=issue, comment=comment, kind=kind, **facts)

    def pull(self, repo: HubRepo, issue: HubIssue, *, whole: bool) -> Json:
        """Show a pull request; lists leave out whether it can be merged."""
        pull = issue.pull
        assert pull is not None
        shown = self._common(repo, issue) | self.fill(
            "pull",
            repo,
            issue=issue,
            repo_url=self.repo_url(repo),
            head=self._branch(repo, pull.head, pull.head_sha),
            base=self._branch(repo, pull.base, pull.base_sha),
            reviewers=[self.user(login) for login in pull.requested],
            **self._places(repo, issue),
        )
        if not self.dated:
            shown["merge_commit_sha"] = pull.merge_commit
        if whole:
            shown |= self.fill(
                "whole pull",
                repo,
                merged=pull.merged_at is not None,
                merged_by=self.user(pull.merged_by) if pull.merged_by else None,
                mergeable=self.mergeable(issue, pull),
                state=self.merge_state(repo, issue, pull).lower(),
                comments=len(issue.comments),
                inline=sum(len(thread.comments) for thread in pull.threads),
            )
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

    def _branch(self, repo: HubRepo, name: str, sha: str) -> Json:
        shown, owner = self.repo(repo), self.user(repo.owner)
        return self.fill("branch of pull", repo, name=name, sha=sha, owner=owner, shown=shown)

    def review(self, repo: HubRepo, issue: HubIssue, review: HubReview) -> Json:
        """Show a review."""
        facts = {"user": self.user(review.author), "association": repo.associate(review.author)}
        shown = self.fill("review", repo, review=review, **facts, **self._places(repo, issue))
        return shown if review.state == "PENDING" else {**shown, "submitted_at": show_time(review.submitted)}

    def review_comment(self, repo: HubRepo, issue: HubIssue, comment: HubReviewComment) -> Json:
        """Show a comment on a line."""
        places = self._places(repo, issue)
        shown = self.fill(
            "review comment",
            repo,
            it=comment,
            url=f"{self.repo_url(repo)}/pulls/comments/{comment.id}",
            web=f"{places['web']}#discussion_r{comment.id}",
            pull_url=places["url"],
            subject="line" if comment.line else "file",
            commit=issue.pull.head_sha if issue.pull else comment.commit,
            user=self.user(comment.author),
            association=repo.associate(comment.author),
        )
        return {**shown, "in_reply_to_id": comment.reply_to} if comment.reply_to else shown

    def check_run(self, repo: HubRepo, check: HubCheckRun) -> Json:
        """Show a check."""
        url = f"{self.repo_url(repo)}/check-runs/{check.id}"
        output = SHAPES.fill("check output", url=url) | check.output
        return self.fill(
            "check run", repo, check=check, url=url, link=self.check_link(repo, check), output=output
        )

    def check_link(self, repo: HubRepo, check: HubCheckRun) -> str:
        """Return where people look at a check."""
        if check.job is not None:
            run = next(run for run in repo.runs if any(job.id == check.job for job in run.jobs))
            return f"{self.web}/{repo.full_name}/actions/runs/{run.id}/job/{check.job}"
        return check.details_url or f"{self.web}/{repo.full_name}/runs/{check.id}"

    def status(self, repo: HubRepo, status: HubStatus) -> Json:
        """Show a commit status."""
        return self.fill("status", repo, status=status, creator=self.user(status.creator))

    def run(self, repo: HubRepo, run: HubRun) -> Json:
        """Show a workflow run."""
        return self.fill("run", repo, run=run, owner=self.user(repo.owner), shown=self.repo(repo))

    def job(self, repo: HubRepo, run: HubRun, job: HubJob) -> Json:
        """Show a job of a workflow run."""
        done = show_time(job.started + 1) if job.conclusion else None
        times = {"status": "completed", "started_at": show_time(job.started), "completed_at": done}
        steps = [
            {name: one for name, one in {**times, **step}.items() if name != "log"} for step in job.steps
        ]
        return self.fill("job", repo, run=run, job=job, done=done, steps=steps)

    def commit(self, repo: HubRepo, commit: CommitFacts) -> Json:
        """Show a commit."""
        url = f"{self.repo_url(repo)}/commits"
        person = {"name": commit.author, "email": commit.email, "date": commit.date}
        parents = [{"sha": parent, "url": f"{url}/{parent}"} for parent in commit.parents]
        return self.fill("commit", repo, commit=commit, url=url, person=person, parents=parents)
