"""Checks of commits, commit statuses, workflow runs of Actions with their jobs and logs."""

from __future__ import annotations

import io
import time
import zipfile
from typing import Any

from starlette.responses import JSONResponse, RedirectResponse, Response

from segue.parts.sim.github.answers import REPO, Exchange, GithubRefusal, Handler, created, pick
from segue.parts.sim.github.hub import Hub, HubRepo
from segue.parts.sim.github.objects import HubCheckRun, HubJob, HubRun, HubStatus


async def _sha(ask: Exchange, repo: HubRepo) -> str:
    """Return the commit that the path names by an id, a branch or a tag."""
    await ask.hub.refresh(repo)
    ref = str(ask.request.path_params["ref"]).removeprefix("heads/")
    if ref in repo.branches:
        return repo.branches[ref]
    if repo.bare is not None:
        found = await repo.bare.resolve(ref)
        if found is None:
            raise GithubRefusal(422, f"No commit found for SHA: {ref}")
        return found
    return ref


async def list_check_runs(ask: Exchange) -> Response:
    """List the checks of a commit."""
    repo = ask.repo("checks")
    sha = await _sha(ask, repo)
    every = [check for check in repo.checks if check.head_sha == sha]
    found = every if ask.param("filter") == "all" else repo.latest_checks(sha)
    name, status = ask.param("check_name"), ask.param("status")
    found = [c for c in found if name in ("", c.name) and status in ("", c.status)]
    return ask.page(
        [ask.show.check_run(repo, check) for check in found],
        "check_runs",
    )


async def create_check_run(ask: Exchange) -> Response:
    """Add a check to a commit."""
    repo = ask.repo("checks")
    check = HubCheckRun(ask.hub.new_id(), ask.text("name", "CheckRun"), ask.text("head_sha", "CheckRun"))
    repo.checks.append(check)
    _apply(ask, repo, check)
    return created(ask.show.check_run(repo, check))


async def edit_check_run(ask: Exchange) -> Response:
    """Show or change a check."""
    repo = ask.repo("checks")
    check = pick(known for known in repo.checks if known.id == ask.number("check"))
    if ask.request.method == "PATCH":
        _apply(ask, repo, check)
    return JSONResponse(ask.show.check_run(repo, check))


def _apply(ask: Exchange, repo: HubRepo, check: HubCheckRun) -> None:
    body = ask.table()
    check.status = body.get("status", check.status)
    check.details_url = body.get("details_url", check.details_url)
    check.output = body.get("output", check.output)
    if body.get("conclusion"):
        check.status, check.conclusion, check.completed = "completed", body["conclusion"], time.time()
    action = "completed" if check.conclusion else "created"
    ask.hub.announce(repo, "check_run", action, lambda: {"check_run": ask.show.check_run(repo, check)})


async def create_status(ask: Exchange) -> Response:
    """Set the status of a commit."""
    repo = ask.repo("statuses")
    body = ask.table()
    status = HubStatus(
        ask.hub.new_id(),
        await _sha(ask, repo),
        body.get("context") or "default",
        ask.text("state", "Status"),
        body.get("description"),
        body.get("target_url"),
        ask.login,
    )
    repo.statuses.append(status)
    shown = ask.show.status(repo, status)
    ask.hub.announce(repo, "status", None, {**shown, "sha": status.sha})
    return created(shown)


async def list_statuses(ask: Exchange) -> Response:
    """List all statuses of a commit, newest first."""
    repo = ask.repo("statuses")
    sha = await _sha(ask, repo)
    return ask.page([ask.show.status(repo, s) for s in reversed(repo.statuses) if s.sha == sha])


async def show_combined_status(ask: Exchange) -> Response:
    """Show the newest status of each context; pending when there is none."""
    repo = ask.repo("statuses")
    sha = await _sha(ask, repo)
    newest = repo.latest_statuses(sha)
    states = {status.state for status in newest}
    state = "success" if states == {"success"} else "pending"
    if states & {"failure", "error"}:
        state = "failure"
    shown = [ask.show.status(repo, status) for status in newest]
    facts = {"state": state, "sha": sha, "count": len(newest), "statuses": shown}
    return JSONResponse(ask.show.fill("combined status", repo, shown=ask.show.repo(repo), **facts))


async def list_runs(ask: Exchange) -> Response:
    """List workflow runs, newest first."""
    repo = ask.repo("actions")
    sha, branch, status = ask.param("head_sha"), ask.param("branch"), ask.param("status")
    workflow = ask.request.path_params.get("workflow")
    found = [
        run
        for run in reversed(repo.runs)
        if sha in ("", run.head_sha)
        and branch in ("", run.head_branch)
        and status in ("", run.conclusion, run.status)
        and (workflow is None or str(run.workflow) == workflow)
    ]
    return ask.page(
        [ask.show.run(repo, run) for run in found],
        "workflow_runs",
    )


def _run(ask: Exchange, repo: HubRepo) -> HubRun:
    return pick(run for run in repo.runs if run.id == ask.number("run"))


async def show_run(ask: Exchange) -> Response:
    """Show a workflow run."""
    repo = ask.repo("actions")
    return JSONResponse(ask.show.run(repo, _run(ask, repo)))


async def list_workflows(ask: Exchange) -> Response:
    """List the workflows that have run."""
    repo = ask.repo("actions")
    found = {run.workflow: run for run in repo.runs}
    return ask.page(
        [ask.show.fill("workflow", repo, run=run) for run in found.values()],
        "workflows",
    )


async def show_workflow(ask: Exchange) -> Response:
    """Show a workflow."""
    repo = ask.repo("actions")
    run = pick(run for run in repo.runs if str(run.workflow) == ask.request.path_params["workflow"])
    return JSONResponse(ask.show.fill("workflow", repo, run=run))


async def list_jobs(ask: Exchange) -> Response:
    """List the jobs of a workflow run."""
    repo = ask.repo("actions")
    run = _run(ask, repo)
    return ask.page(
        [ask.show.job(repo, run, job) for job in run.jobs],
        "jobs",
    )


def _job(ask: Exchange, repo: HubRepo) -> tuple[HubRun, HubJob]:
    return pick((run, job) for run in repo.runs for job in run.jobs if job.id == ask.number("job"))


async def show_job(ask: Exchange) -> Response:
    """Show a job."""
    repo = ask.repo("actions")
    return JSONResponse(ask.show.job(repo, *_job(ask, repo)))


async def show_job_log(ask: Exchange) -> Response:
    """Redirect to the log of a job, a text."""
    _, job = _job(ask, ask.repo("actions"))
    if job.conclusion is None:
        raise GithubRefusal(404, "Not Found")
    return _redirect(ask, write_log(job).encode(), "text/plain; charset=utf-8")


async def show_run_log(ask: Exchange) -> Response:
    """Redirect to the logs of all jobs, a zip file."""
    run = _run(ask, ask.repo("actions"))
    if not run.is_completed:
        raise GithubRefusal(404, "Not Found")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for index, job in enumerate(run.jobs):
            archive.writestr(f"{index}_{job.name}.txt", write_log(job))
            for step in job.steps:
                archive.writestr(f"{job.name}/{step['number']}_{step['name']}.txt", step.get("log", ""))
    return _redirect(ask, packed.getvalue(), "application/zip")


def write_log(job: HubJob) -> str:
    """Write the log of a job: of its own, or of its steps one after the other."""
    return job.log or "".join(step.get("log", "") for step in job.steps)


def _redirect(ask: Exchange, data: bytes, kind: str) -> Response:
    """Redirect to another host, where a token has no business."""
    token = ask.hub.offer(data, kind)
    host = ask.request.url.hostname
    port = f":{ask.request.url.port}" if ask.request.url.port else ""
    other = {"127.0.0.1": "localhost", "localhost": "127.0.0.1"}.get(host or "")
    if other is None:
        return RedirectResponse(f"https://logs.actions.githubusercontent.com/_log/{token}", 302)
    return RedirectResponse(f"http://{other}{port}/_log/{token}", 302)


async def list_artifacts(ask: Exchange) -> Response:
    """List the artifacts of a workflow run: there are none."""
    _run(ask, ask.repo("actions"))
    return JSONResponse({"total_count": 0, "artifacts": []})


async def list_annotations(ask: Exchange) -> Response:
    """List the annotations of a check: there are none."""
    ask.repo("checks")
    return ask.page([])


async def rerun(ask: Exchange) -> Response:
    """Run the jobs of a workflow run again: they are under way until a control says how they end."""
    repo = ask.repo("actions")
    run = _run(ask, repo)
    failed_only = ask.request.url.path.endswith("failed-jobs")
    run.attempt += 1
    for job in run.jobs:
        if not failed_only or job.conclusion not in ("success", "skipped", "neutral"):
            job.conclusion = None
    show_checks(ask.hub, repo, run)
    return created({})


def add_run(hub: Hub, repo: HubRepo, facts: dict[str, Any]) -> HubRun:
    """Add a workflow run, with checks of the same names as its jobs."""
    branch = facts.get("head_branch") or repo.default_branch
    jobs = [
        HubJob(
            hub.new_id(),
            job["name"],
            job.get("conclusion"),
            [
                {"number": number, "conclusion": "success", **step}
                for number, step in enumerate(job.get("steps", []), 1)
            ],
            job.get("log", ""),
        )
        for job in facts.get("jobs", [])
    ]
    name = facts.get("name", "CI")
    workflow = next((run.workflow for run in repo.runs if run.name == name), None)
    run = HubRun(
        hub.new_id(),
        len(repo.runs) + 1,
        name,
        workflow or hub.new_id(),
        facts.get("head_sha") or repo.branches.get(branch, ""),
        branch,
        facts.get("event", "pull_request"),
        jobs,
    )
    repo.runs.append(run)
    show_checks(hub, repo, run)
    return run


def show_checks(hub: Hub, repo: HubRepo, run: HubRun) -> None:
    """Show how the jobs of a run stand as checks of its commit."""
    for job in run.jobs:
        check = next((known for known in repo.checks if known.job == job.id), None)
        if check is None:
            check = HubCheckRun(job.id, job.name, run.head_sha, job=job.id)
            repo.checks.append(check)
        check.status, check.conclusion = job.status, job.conclusion
        check.completed = time.time() if job.conclusion else None
    shown = {"id": run.id, "head_sha": run.head_sha, "conclusion": run.conclusion}
    hub.announce(repo, "workflow_run", run.status, {"workflow_run": shown})


_RUN = f"{REPO}/actions/runs/{{run:int}}"
ROUTES: list[tuple[str, str, Handler]] = [
    ("GET", f"{REPO}/commits/{{ref:path}}/check-runs", list_check_runs),
    ("GET", f"{REPO}/commits/{{ref:path}}/status", show_combined_status),
    ("GET", f"{REPO}/commits/{{ref:path}}/statuses", list_statuses),
    ("POST", f"{REPO}/statuses/{{ref}}", create_status),
    ("POST", f"{REPO}/check-runs", create_check_run),
    ("GET", f"{REPO}/check-runs/{{check:int}}", edit_check_run),
    ("PATCH", f"{REPO}/check-runs/{{check:int}}", edit_check_run),
    ("GET", f"{REPO}/actions/workflows", list_workflows),
    ("GET", f"{REPO}/actions/workflows/{{workflow}}", show_workflow),
    ("GET", f"{REPO}/actions/workflows/{{workflow}}/runs", list_runs),
    ("GET", f"{REPO}/actions/runs", list_runs),
    ("GET", _RUN, show_run),
    ("GET", f"{REPO}/check-runs/{{check:int}}/annotations", list_annotations),
    ("GET", f"{_RUN}/artifacts", list_artifacts),
    ("GET", f"{_RUN}/jobs", list_jobs),
    ("GET", f"{_RUN}/attempts/{{attempt:int}}/jobs", list_jobs),
    ("GET", f"{_RUN}/logs", show_run_log),
    ("POST", f"{_RUN}/rerun", rerun),
    ("POST", f"{_RUN}/rerun-failed-jobs", rerun),
    ("GET", f"{REPO}/actions/jobs/{{job:int}}", show_job),
    ("GET", f"{REPO}/actions/jobs/{{job:int}}/logs", show_job_log),
]
