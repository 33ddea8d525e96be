"""How the REST API shows checks, statuses, workflow runs and commits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from segue.parts.sim.github.hub import HubRepo
from segue.parts.sim.github.objects import HubCheckRun, HubJob, HubRun, HubStatus
from segue.parts.sim.github.repository import CommitFacts
from segue.parts.sim.github.shown import Presenter, show_time


def describe_check_run(show: Presenter, repo: HubRepo, check: HubCheckRun) -> dict[str, Any]:
    """Show a check."""
    url = f"{show.repo_url(repo)}/check-runs/{check.id}"
    output = {"title": None, "summary": None, "text": None} | check.output
    return {
        "id": check.id,
        "node_id": f"CR_{check.id}",
        "name": check.name,
        "head_sha": check.head_sha,
        "external_id": "",
        "url": url,
        "html_url": check_link(show, repo, check),
        "details_url": check_link(show, repo, check),
        "status": check.status,
        "conclusion": check.conclusion,
        "started_at": show_time(check.started),
        "completed_at": show_time(check.completed),
        "output": {**output, "annotations_count": 0, "annotations_url": f"{url}/annotations"},
        "check_suite": {"id": check.id},
        "app": {"id": 15368, "slug": "github-actions", "name": "GitHub Actions"},
        "pull_requests": [],
    }


def check_link(show: Presenter, repo: HubRepo, check: HubCheckRun) -> str:
    """Return where people look at a check."""
    if check.job is not None:
        run = next(run for run in repo.runs if any(job.id == check.job for job in run.jobs))
        return f"{show.web}/{repo.full_name}/actions/runs/{run.id}/job/{check.job}"
    return check.details_url or f"{show.web}/{repo.full_name}/runs/{check.id}"


def describe_status(show: Presenter, repo: HubRepo, status: HubStatus) -> dict[str, Any]:
    """Show a commit status."""
    return {
        "url": f"{show.repo_url(repo)}/statuses/{status.sha}",
        "avatar_url": None,
        "id": status.id,
        "node_id": f"SC_{status.id}",
        "state": status.state,
        "description": status.description,
        "target_url": status.target_url,
        "context": status.context,
        "creator": show.user(status.creator),
        **show.times(status.created, status.created),
    }


def describe_run(show: Presenter, repo: HubRepo, run: HubRun) -> dict[str, Any]:
    """Show a workflow run."""
    url = f"{show.repo_url(repo)}/actions/runs/{run.id}"
    links = ("jobs", "logs", "artifacts", "cancel", "rerun")
    return {
        "id": run.id,
        "node_id": f"WFR_{run.id}",
        "name": run.name,
        "display_title": run.name,
        "run_number": run.number,
        "run_attempt": run.attempt,
        "event": run.event,
        "status": "completed" if run.is_completed else "in_progress",
        "conclusion": run.conclusion,
        "head_branch": run.head_branch,
        "head_sha": run.head_sha,
        "path": f".github/workflows/{run.workflow}.yml",
        "workflow_id": run.workflow,
        "check_suite_id": run.id,
        "check_suite_node_id": f"CS_{run.id}",
        "url": url,
        "html_url": f"{show.web}/{repo.full_name}/actions/runs/{run.id}",
        "workflow_url": f"{show.repo_url(repo)}/actions/workflows/{run.workflow}",
        "check_suite_url": f"{show.repo_url(repo)}/check-suites/{run.id}",
        "previous_attempt_url": None,
        **{f"{name}_url": f"{url}/{name}" for name in links},
        "pull_requests": [],
        "actor": show.user(repo.owner),
        "triggering_actor": show.user(repo.owner),
        "head_commit": {
            "id": run.head_sha,
            "tree_id": run.head_sha,
            "message": run.name,
            "timestamp": show_time(run.created),
            "author": {"name": repo.owner, "email": "noreply@github.com"},
            "committer": {"name": repo.owner, "email": "noreply@github.com"},
        },
        "repository": show.repo(repo),
        "head_repository": show.repo(repo),
        "run_started_at": show_time(run.created),
        **show.times(run.created, run.created),
    }


def describe_job(show: Presenter, repo: HubRepo, run: HubRun, job: HubJob) -> dict[str, Any]:
    """Show a job of a workflow run."""
    done = show_time(job.started + 1) if job.conclusion else None
    steps = [
        {"status": "completed", "started_at": show_time(job.started), "completed_at": done, **step}
        for step in job.steps
    ]
    return {
        "id": job.id,
        "node_id": f"JOB_{job.id}",
        "run_id": run.id,
        "run_url": f"{show.repo_url(repo)}/actions/runs/{run.id}",
        "run_attempt": run.attempt,
        "head_sha": run.head_sha,
        "head_branch": run.head_branch,
        "workflow_name": run.name,
        "url": f"{show.repo_url(repo)}/actions/jobs/{job.id}",
        "html_url": f"{show.web}/{repo.full_name}/actions/runs/{run.id}/job/{job.id}",
        "check_run_url": f"{show.repo_url(repo)}/check-runs/{job.id}",
        "name": job.name,
        "status": "completed" if job.conclusion else "in_progress",
        "conclusion": job.conclusion,
        "created_at": show_time(job.started),
        "started_at": show_time(job.started),
        "completed_at": done,
        "steps": [{name: value for name, value in step.items() if name != "log"} for step in steps],
        "labels": ["ubuntu-latest"],
        **dict.fromkeys(("runner_id", "runner_name", "runner_group_id", "runner_group_name"), None),
    }


def describe_commit(show: Presenter, repo: HubRepo, commit: CommitFacts) -> dict[str, Any]:
    """Show a commit."""
    url = f"{show.repo_url(repo)}/commits"
    person: Mapping[str, str] = {"name": commit.author, "email": commit.email, "date": commit.date}
    return {
        "sha": commit.sha,
        "node_id": f"C_{commit.sha}",
        "url": f"{url}/{commit.sha}",
        "html_url": f"{show.web}/{repo.full_name}/commit/{commit.sha}",
        "commit": {"message": commit.message, "author": person, "committer": person},
        "author": None,
        "committer": None,
        "parents": [{"sha": parent, "url": f"{url}/{parent}"} for parent in commit.parents],
    }
