"""A stand-in for GitHub: the endpoints that the product and its tests call, over plain dictionaries.

The script, also as `make_app({...})`; everything may be left out:

    {"tokens": {"bot-token": "bot"},            # whose they are; without any, every key is the owner's
     "repos": {"acme/shop": {
        "bare": "/tmp/shop.git",                # the branches are those of this repository
        "members": ["bot"],                     # beside the owner
        "labels": ["ready"],
        "push": true, "archived": false,        # what the tokens may do
        "issues": [{"title": "T", "body": "", "user": "bot", "labels": ["ready"], "blocked_by": [2]}]}},
     "faults": []}                              # as in tests/fakes/serving.py

`POST /_sim/repos/O/R/runs` with {"branch", "jobs": [{"name", "conclusion", "log"}]} lets CI work on a branch.
What a person does has GitHub's own endpoints: comments, reviews, edits, statuses, a merge.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from tests.fakes.serving import Gate, main

_AS_GITHUB = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "GitHub"), ("EMAIL", "noreply@github.com"))
}


@dataclass
class Repo:
    """A repository: its issues and pull requests share their numbers."""

    name: str
    bare: Path | None = None
    members: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    push: bool = True
    archived: bool = False
    issues: dict[int, dict[str, Any]] = field(default_factory=dict)
    jobs: list[dict[str, Any]] = field(default_factory=list)
    statuses: list[dict[str, Any]] = field(default_factory=list)

    def git(self, *args: str) -> subprocess.CompletedProcess[str]:
        """Ask the bare repository."""
        command = ["git", *(f"--git-dir={self.bare}",), *args]
        return subprocess.run(
            command,
            env={"PATH": "/usr/bin:/bin:/usr/local/bin", **_AS_GITHUB},
            capture_output=True,
            text=True,
        )

    def commit(self, branch: str) -> str:
        """Return the commit of a branch; empty if there is no such branch."""
        return self.git("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}").stdout.strip()

    def role(self, login: str) -> str:
        """Return how GitHub calls somebody who writes here."""
        if login == self.name.partition("/")[0]:
            return "OWNER"
        return "COLLABORATOR" if login in self.members else "NONE"


@dataclass
class Call:
    """One request to the API."""

    repo: Repo
    login: str
    base: str
    """The address that the client used."""
    at: Mapping[str, Any]
    query: Mapping[str, str]
    body: dict[str, Any]

    @property
    def issue(self) -> dict[str, Any]:
        """The issue that the path names."""
        found: dict[str, Any] = _found(self.repo.issues.get(self.at["number"]))
        return found

    @property
    def pull(self) -> dict[str, Any]:
        """The pull request that the path names."""
        issue = self.issue
        _found(issue["pull"])
        if not self.repo.commit(issue["pull"]["head"]):
            issue["state"] = "closed"  # GitHub closes what has no branch any more
        return issue


Answer = Any
"""What is sent as JSON, alone or with a status."""


class Github:
    """Everything that GitHub knows."""

    def __init__(self, script: Mapping[str, Any] = MappingProxyType({})) -> None:
        self.tokens: dict[str, str] = dict(script.get("tokens", {}))
        self._ids = itertools.count(1001)
        self.repos = {name: self._open(name, dict(given)) for name, given in script.get("repos", {}).items()}
        self.app = Gate(_route(self), script.get("faults", ()))

    def _open(self, name: str, given: dict[str, Any]) -> Repo:
        issues, bare = given.pop("issues", ()), given.pop("bare", None)
        repo = Repo(name, Path(bare) if bare else None, **given)
        for issue in issues:
            self._add(repo, **issue)
        return repo

    def _add(
        self,
        repo: Repo,
        title: str,
        body: str | None = "",
        user: str = "",
        labels: Iterable[str] = (),
        blocked_by: Iterable[int] = (),
        pull: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        issue = {
            "id": next(self._ids),
            "number": len(repo.issues) + 1,
            "title": title,
            "body": body,
            "user": user or repo.name.partition("/")[0],
            "state": "open",
            "labels": list(labels),
            "blocked_by": list(blocked_by),
            "comments": [],
            "pull": pull,
        }
        repo.issues[len(repo.issues) + 1] = issue
        return issue

    def _remark(self, call: Call, **more: Any) -> dict[str, Any]:
        """Write a comment or a review."""
        return {"id": next(self._ids), "user": call.login, "body": call.body.get("body", ""), **more}

    # The repository

    def show_user(self, call: Call) -> Answer:
        return {"login": call.login, "type": "User"}

    def show_repo(self, call: Call) -> Answer:
        repo = call.repo
        return {"full_name": repo.name, "archived": repo.archived, "permissions": {"push": repo.push}}

    def list_labels(self, call: Call) -> Answer:
        return [{"name": name} for name in call.repo.labels]

    # Issues

    def list_issues(self, call: Call) -> Answer:
        state, labels = call.query.get("state", "open"), call.query.get("labels", "").split(",")
        wanted = {name.lower() for name in labels if name}
        return [
            _show_issue(call, issue)
            for issue in call.repo.issues.values()
            if state in ("all", issue["state"]) and wanted <= {name.lower() for name in issue["labels"]}
        ]

    def show_issue(self, call: Call) -> Answer:
        return _show_issue(call, call.issue)

    def edit_issue(self, call: Call) -> Answer:
        call.issue.update({k: v for k, v in call.body.items() if k in ("title", "body", "state")})
        return _show_issue(call, call.issue)

    def list_blockers(self, call: Call) -> Answer:
        return [_show_issue(call, call.repo.issues[number]) for number in call.issue["blocked_by"]]

    def add_labels(self, call: Call) -> Answer:
        known = call.issue["labels"]
        known += [name for name in call.body["labels"] if name not in known]
        return [{"name": name} for name in known]

    def remove_label(self, call: Call) -> Answer:
        _found(call.at["name"] in call.issue["labels"])
        call.issue["labels"].remove(call.at["name"])
        return [{"name": name} for name in call.issue["labels"]]

    def list_comments(self, call: Call) -> Answer:
        return [_show_remark(call, one) for one in call.issue["comments"]]

    def add_comment(self, call: Call) -> Answer:
        call.issue["comments"].append(self._remark(call))
        return 201, _show_remark(call, call.issue["comments"][-1])

    def edit_comment(self, call: Call) -> Answer:
        every = (one for issue in call.repo.issues.values() for one in issue["comments"])
        comment = _found(next((one for one in every if one["id"] == call.at["id"]), None))
        comment["body"] = call.body["body"]
        return _show_remark(call, comment)

    # Pull requests

    def list_pulls(self, call: Call) -> Answer:
        state, head = call.query.get("state", "open"), call.query.get("head", "").partition(":")[2]
        shown = [
            _show_pull(Call(call.repo, call.login, call.base, {"number": number}, {}, {}))
            for number, issue in call.repo.issues.items()
            if issue["pull"] and head in ("", issue["pull"]["head"])
        ]
        return [one for one in reversed(shown) if state in ("all", one["state"])]

    def open_pull(self, call: Call) -> Answer:
        repo, head, base = call.repo, call.body["head"], call.body["base"]
        if not repo.commit(head) or not repo.commit(base):
            return _invalid("head" if not repo.commit(head) else "base", "invalid")
        if any(
            one["state"] == "open"
            and one["pull"]
            and (one["pull"]["head"], one["pull"]["base"]) == (head, base)
            for one in repo.issues.values()
        ):
            return _invalid("", f"A pull request already exists for {repo.name.partition('/')[0]}:{head}.")
        pull = {"head": head, "base": base, "draft": bool(call.body.get("draft")), "merged": False}
        made = self._add(
            repo,
            call.body["title"],
            call.body.get("body", ""),
            call.login,
            pull=pull | {"lines": [], "reviews": []},
        )
        return 201, _show_pull(Call(repo, call.login, call.base, {"number": made["number"]}, {}, {}))

    def show_pull(self, call: Call) -> Answer:
        return _show_pull(call)

    def edit_pull(self, call: Call) -> Answer:
        call.pull.update({k: v for k, v in call.body.items() if k in ("title", "body", "state")})
        return _show_pull(call)

    def merge_pull(self, call: Call) -> Answer:
        repo, pull = call.repo, call.pull["pull"]
        base, head = repo.commit(pull["base"]), repo.commit(pull["head"])
        tree = repo.git("merge-tree", "--write-tree", base, head)
        if tree.returncode:
            return 405, {"message": "Pull Request is not mergeable"}
        made = repo.git("commit-tree", tree.stdout.split()[0], "-p", base, "-p", head, "-m", "Merge")
        repo.git("update-ref", f"refs/heads/{pull['base']}", made.stdout.strip())
        pull["merged"], call.issue["state"] = True, "closed"
        return {"merged": True, "sha": made.stdout.strip()}

    def list_lines(self, call: Call) -> Answer:
        return [_show_remark(call, one) for one in call.pull["pull"]["lines"]]

    def comment_line(self, call: Call) -> Answer:
        where = {"path": call.body["path"], "line": call.body.get("line"), "resolved": False}
        call.pull["pull"]["lines"].append(self._remark(call, **where))
        return 201, _show_remark(call, call.pull["pull"]["lines"][-1])

    def reply(self, call: Call) -> Answer:
        lines = call.pull["pull"]["lines"]
        top = _found(next((one for one in lines if one["id"] == call.at["id"]), None))
        where = {"path": top["path"], "line": top["line"], "in_reply_to_id": top["id"]}
        lines.append(self._remark(call, **where))
        return 201, _show_remark(call, lines[-1])

    def list_reviews(self, call: Call) -> Answer:
        return [_show_remark(call, one) for one in call.pull["pull"]["reviews"]]

    def review(self, call: Call) -> Answer:
        states = {"APPROVE": "APPROVED", "REQUEST_CHANGES": "CHANGES_REQUESTED", "COMMENT": "COMMENTED"}
        call.pull["pull"]["reviews"].append(self._remark(call, state=states[call.body["event"]]))
        return _show_remark(call, call.pull["pull"]["reviews"][-1])

    def answer_graphql(self, call: Call) -> Answer:
        """Answer the two documents that the product sends."""
        query, given = call.body["query"], call.body["variables"]
        if "markPullRequestReadyForReview" in query:
            every = (one for repo in self.repos.values() for one in repo.issues.values())
            _found(next((one for one in every if f"PR_{one['id']}" == given["id"]), None))["pull"][
                "draft"
            ] = False
            return {"data": {"markPullRequestReadyForReview": {"clientMutationId": None}}}
        if "reviewThreads" not in query:
            return {"data": None, "errors": [{"message": "The stand-in does not know this question."}]}
        repo = _found(self.repos.get(f"{given['owner']}/{given['name']}"))
        lines = _found(repo.issues.get(given["number"]))["pull"]["lines"]
        threads = {"nodes": [_show_thread(repo, lines, top) for top in lines if "resolved" in top]}
        return {"data": {"repository": {"pullRequest": {"reviewThreads": threads}}}}

    # CI

    def run_ci(self, repo: str, branch: str, jobs: Iterable[Mapping[str, Any]]) -> int:
        """Let CI work on a branch: jobs with a name, a conclusion (none yet: it runs) and a log."""
        known, run = self.repos[repo], next(self._ids)
        sha = known.commit(branch)
        known.jobs += [{"id": next(self._ids), "run": run, "sha": sha, "log": "", **job} for job in jobs]
        return run

    def add_run(self, call: Call) -> Answer:
        return {"id": self.run_ci(call.repo.name, call.body["branch"], call.body["jobs"])}

    def list_checks(self, call: Call) -> Answer:
        newest = {job["name"]: job for job in call.repo.jobs if job["sha"] == call.at["sha"]}
        return {"check_runs": [_show_job(call, job) for job in newest.values()]}

    def list_runs(self, call: Call) -> Answer:
        runs = {job["run"] for job in call.repo.jobs if job["sha"] == call.query["head_sha"]}
        return {"workflow_runs": [{"id": run} for run in sorted(runs)]}

    def list_jobs(self, call: Call) -> Answer:
        return {"jobs": [_show_job(call, job) for job in call.repo.jobs if job["run"] == call.at["id"]]}

    def find_log(self, call: Call) -> Answer:
        return RedirectResponse(f"{call.base}/_sim/log/{call.repo.name}/{call.at['id']}", 302)

    async def show_log(self, request: Request) -> Response:
        """Serve a log from where GitHub redirects to: a store that refuses tokens, which it does not know."""
        repo = _found(self.repos.get(f"{request.path_params['owner']}/{request.path_params['repo']}"))
        job = _found(next((one for one in repo.jobs if one["id"] == request.path_params["id"]), None))
        return PlainTextResponse(job["log"], 403 if "authorization" in request.headers else 200)

    def list_statuses(self, call: Call) -> Answer:
        return {"statuses": [one for one in call.repo.statuses if one["sha"] == call.at["sha"]]}

    def add_status(self, call: Call) -> Answer:
        call.repo.statuses.append({"sha": call.at["sha"], **call.body})
        return 201, call.repo.statuses[-1]

    # Requests

    async def serve(self, handler: Callable[[Call], Answer], request: Request) -> Response:
        """Answer one request with what a handler says."""
        login = self._login(request)
        at, body = request.path_params, await request.body()
        named = f"{at.get('owner')}/{at.get('repo')}"
        repo = _found(self.repos.get(named)) if "owner" in at else Repo("")
        base = str(request.base_url).rstrip("/")
        call = Call(repo, login, base, at, request.query_params, json.loads(body) if body else {})
        answer = handler(call)
        if isinstance(answer, Response):
            return answer
        status, data = answer if isinstance(answer, tuple) else (200, answer)
        return _send(request, status, data)

    def _login(self, request: Request) -> str:
        key = request.headers.get("authorization", "").partition(" ")[2]
        if request.url.path.startswith("/_sim/"):
            return ""
        if not key or (self.tokens and key not in self.tokens):
            raise HTTPException(401, "Bad credentials")
        return self.tokens.get(key) or next(iter(self.repos), "octocat").partition("/")[0]


def _found(what: Any) -> Any:
    if not what:
        raise HTTPException(404, "Not Found")
    return what


def _invalid(where: str, why: str) -> Answer:
    error = {"field": where, "code": why} if where else {"message": why}
    return 422, {"message": "Validation Failed", "errors": [error]}


def _send(request: Request, status: int, data: Any) -> Response:
    """Send a page of a list, or all of what is no list; what the client has already is not sent again."""
    headers = {}
    size, page = int(request.query_params.get("per_page", 30)), int(request.query_params.get("page", 1))
    if isinstance(data, list):
        if len(data) > page * size:
            following = request.url.include_query_params(page=page + 1)
            headers["link"] = f'<{following}>; rel="next"'
        data = data[(page - 1) * size : page * size]
    response = JSONResponse(data, status, headers)
    if request.method == "GET":
        response.headers["etag"] = f'"{hashlib.sha256(response.body).hexdigest()}"'
        if response.headers["etag"] == request.headers.get("if-none-match"):
            return Response(status_code=304)
    return response


def _show_issue(call: Call, issue: dict[str, Any]) -> dict[str, Any]:
    kind = "pull" if issue["pull"] else "issues"
    shown = {name: issue[name] for name in ("id", "number", "title", "body", "state")}
    shown |= {
        "html_url": f"{call.base}/{call.repo.name}/{kind}/{issue['number']}",
        "user": {"login": issue["user"], "type": "User"},
        "author_association": call.repo.role(issue["user"]),
        "labels": [{"name": name} for name in issue["labels"]],
        "issue_dependencies_summary": {"total_blocked_by": len(issue["blocked_by"])},
        "repository_url": f"{call.base}/repos/{call.repo.name}",
    }
    return shown | ({"pull_request": {}} if issue["pull"] else {})


def _show_pull(call: Call) -> dict[str, Any]:
    issue, repo = call.pull, call.repo
    pull = issue["pull"]
    heads = {side: repo.commit(pull[side]) for side in ("head", "base")}
    merges = repo.git("merge-tree", "--write-tree", heads["base"], heads["head"]).returncode == 0
    sides = {
        side: {"ref": pull[side], "sha": sha or "0" * 40, "repo": {"full_name": repo.name}}
        for side, sha in heads.items()
    }
    sides["head"]["repo"] = {"full_name": pull.get("from", repo.name)}
    merged = {"merged_at": "2026-11-15T00:00:00Z" if pull["merged"] else None, "mergeable": merges}
    more = {"node_id": f"PR_{issue['id']}", "draft": pull["draft"], **sides, **merged}
    return _show_issue(call, issue) | more


def _show_remark(call: Call, one: dict[str, Any]) -> dict[str, Any]:
    user = {"login": one["user"], "type": "User"}
    where = f"{call.base}/{call.repo.name}/{one['id']}"
    return {**one, "user": user, "author_association": call.repo.role(one["user"]), "html_url": where}


def _show_thread(repo: Repo, lines: list[dict[str, Any]], top: dict[str, Any]) -> dict[str, Any]:
    comments = [
        {
            "databaseId": one["id"],
            "body": one["body"],
            "url": "",
            "authorAssociation": repo.role(one["user"]),
            "author": {"login": one["user"]},
        }
        for one in lines
        if top["id"] in (one["id"], one.get("in_reply_to_id"))
    ]
    shown = {"id": f"PRRT_{top['id']}", "isResolved": top["resolved"], "path": top["path"]}
    return {**shown, "line": top["line"], "comments": {"nodes": comments}}


def _show_job(call: Call, job: dict[str, Any]) -> dict[str, Any]:
    url = f"{call.base}/{call.repo.name}/actions/runs/{job['run']}/job/{job['id']}"
    ends = {"status": "completed" if job.get("conclusion") else "in_progress"}
    shown = {"id": job["id"], "name": job["name"], "conclusion": job.get("conclusion"), "output": {}}
    return {**shown, **ends, "html_url": url, "details_url": url}


def _route(hub: Github) -> Starlette:
    repo, pull = "/repos/{owner}/{repo}", "/repos/{owner}/{repo}/pulls/{number:int}"
    issue = f"{repo}/issues/{{number:int}}"
    table: list[tuple[str, str, Callable[[Call], Answer]]] = [
        ("GET", "/user", hub.show_user),
        ("POST", "/graphql", hub.answer_graphql),
        ("GET", repo, hub.show_repo),
        ("GET", f"{repo}/labels", hub.list_labels),
        ("GET", f"{repo}/issues", hub.list_issues),
        ("GET", issue, hub.show_issue),
        ("PATCH", issue, hub.edit_issue),
        ("GET", f"{issue}/dependencies/blocked_by", hub.list_blockers),
        ("POST", f"{issue}/labels", hub.add_labels),
        ("DELETE", f"{issue}/labels/{{name:path}}", hub.remove_label),
        ("GET", f"{issue}/comments", hub.list_comments),
        ("POST", f"{issue}/comments", hub.add_comment),
        ("PATCH", f"{repo}/issues/comments/{{id:int}}", hub.edit_comment),
        ("GET", f"{repo}/pulls", hub.list_pulls),
        ("POST", f"{repo}/pulls", hub.open_pull),
        ("GET", pull, hub.show_pull),
        ("PATCH", pull, hub.edit_pull),
        ("PUT", f"{pull}/merge", hub.merge_pull),
        ("GET", f"{pull}/comments", hub.list_lines),
        ("POST", f"{pull}/comments", hub.comment_line),
        ("POST", f"{pull}/comments/{{id:int}}/replies", hub.reply),
        ("GET", f"{pull}/reviews", hub.list_reviews),
        ("POST", f"{pull}/reviews", hub.review),
        ("GET", f"{repo}/commits/{{sha}}/check-runs", hub.list_checks),
        ("GET", f"{repo}/commits/{{sha}}/status", hub.list_statuses),
        ("POST", f"{repo}/statuses/{{sha}}", hub.add_status),
        ("GET", f"{repo}/actions/runs", hub.list_runs),
        ("GET", f"{repo}/actions/runs/{{id:int}}/jobs", hub.list_jobs),
        ("GET", f"{repo}/actions/jobs/{{id:int}}/logs", hub.find_log),
        ("POST", f"/_sim{repo}/runs", hub.add_run),
    ]
    routes = [Route(path, partial(hub.serve, handler), methods=[method]) for method, path, handler in table]
    routes.append(Route("/_sim/log/{owner}/{repo}/{id:int}", hub.show_log))

    def refuse(_request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return JSONResponse({"message": error.detail}, error.status_code)

    return Starlette(routes=routes, exception_handlers={HTTPException: refuse})


def make_app(script: Mapping[str, Any]) -> Gate:
    """Build the stand-in; in Python, `Github(script)` also shows what it knows."""
    return Github(script).app


if __name__ == "__main__":
    main(make_app, __doc__ or "")
