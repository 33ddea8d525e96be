"""Users, repositories, branches, search, webhooks, and what is left of the rate limits."""

from __future__ import annotations

import copy
import re
import shlex
from typing import Any

from starlette.responses import JSONResponse, Response

from segue.parts.sim.github.answers import REPO, Exchange, GithubRefusal, Handler, created, invalid, pick
from segue.parts.sim.github.hub import HubRepo
from segue.parts.sim.github.issues import parse_time
from segue.parts.sim.github.objects import HookDelivery, HubHook, HubIssue
from segue.parts.sim.github.shown import SHAPES, Presenter


async def show_root(ask: Exchange) -> Response:
    """Show where things are; clients read the scopes of their token from the headers."""
    return JSONResponse(
        {"current_user_url": f"{ask.show.api}/user", "rate_limit_url": f"{ask.show.api}/rate_limit"},
        headers={"x-oauth-scopes": "repo, read:org, workflow"},
    )


async def show_meta(_: Exchange) -> Response:
    """Show facts about the installation."""
    return JSONResponse({"verifiable_password_authentication": False, "hooks": ["127.0.0.0/8"]})


async def list_versions(_: Exchange) -> Response:
    """List the versions of the API."""
    return JSONResponse(["2022-11-28", "2026-03-10"])


async def show_user(ask: Exchange) -> Response:
    """Show the user of the token, or another one."""
    login = ask.request.path_params.get("login", ask.login)
    return JSONResponse({**ask.show.user(login), "name": login, "email": None, "public_repos": 1})


async def show_repo(ask: Exchange) -> Response:
    """Show a repository."""
    repo = ask.repo()
    await ask.hub.refresh(repo)
    return JSONResponse(ask.show.repo(repo))


async def list_branches(ask: Exchange) -> Response:
    """List the branches of a repository."""
    repo = ask.repo("contents")
    await ask.hub.refresh(repo)
    return ask.page([_branch(ask, repo, name) for name in sorted(repo.branches)])


async def show_branch(ask: Exchange) -> Response:
    """Show one branch."""
    repo = ask.repo("contents")
    await ask.hub.refresh(repo)
    name = ask.request.path_params["branch"]
    if name not in repo.branches:
        raise GithubRefusal(404, "Branch not found")
    return JSONResponse(_branch(ask, repo, name))


def _branch(ask: Exchange, repo: HubRepo, name: str) -> dict[str, Any]:
    sha = repo.branches[name]
    commit = {"sha": sha, "url": f"{ask.show.repo_url(repo)}/commits/{sha}"}
    return {"name": name, "commit": commit, "protected": False}


async def show_ref(ask: Exchange) -> Response:
    """Show what a branch points to; DELETE deletes it."""
    repo = ask.repo("contents")
    await ask.hub.refresh(repo)
    name = ask.request.path_params["branch"]
    if name not in repo.branches:
        raise GithubRefusal(404, "Not Found")
    if ask.request.method == "DELETE":
        if repo.bare is not None:
            await repo.bare.delete(name)
        del repo.branches[name]
        return Response(status_code=204)
    sha, url = repo.branches[name], ask.show.repo_url(repo)
    target = {"type": "commit", "sha": sha, "url": f"{url}/git/commits/{sha}"}
    shown = {"ref": f"refs/heads/{name}", "node_id": f"REF_{name}", "url": f"{url}/git/refs/heads/{name}"}
    return JSONResponse({**shown, "object": target})


async def show_limits(ask: Exchange) -> Response:
    """Show the rate limits; asking costs nothing."""
    headers = ask.request.scope["segue.limits"]
    one = {name: int(headers[f"x-ratelimit-{name}"]) for name in ("limit", "remaining", "used", "reset")}
    body: dict[str, Any] = {"resources": {"core": one, "search": one, "graphql": one}}
    return JSONResponse(body if ask.show.dated else {**body, "rate": one})


async def search_issues(ask: Exchange) -> Response:
    """Search issues and pull requests."""
    query = ask.param("q")
    if not query.strip():
        raise invalid("Search", "missing", field="q")
    found = find_issues(ask, query)
    by = {"created": lambda pair: pair[1].created, "updated": lambda pair: pair[1].updated}
    key = by.get(ask.param("sort"), lambda pair: pair[1].number)
    found.sort(key=key, reverse=ask.param("order", "desc") == "desc")
    return ask.page(
        [{**ask.show.issue(repo, issue), "score": 1.0} for repo, issue in found],
        "items",
        incomplete_results=False,
    )


def find_issues(ask: Exchange, query: str) -> list[tuple[HubRepo, HubIssue]]:
    """Return the issues that a search finds."""
    query = query.replace(":@me", f":{ask.login}")
    try:
        words = shlex.split(query.replace("'", "\\'"))
    except ValueError:
        words = query.split()
    return [
        (repo, issue)
        for repo in ask.hub.repos.values()
        if ask.caller.sees(repo)
        for issue in repo.issues.values()
        if all(_is_found(repo, issue, word) for word in words)
    ]


def _is_found(repo: HubRepo, issue: HubIssue, word: str) -> bool:
    """Return whether an issue fits one word of a search."""
    if word.startswith("-") and ":" in word:
        return not _is_found(repo, issue, word[1:])
    name, colon, value = word.partition(":")
    if not colon or not re.fullmatch(r"[a-z-]+", name):
        return word.lower() in f"{issue.title} {issue.body or ''}".lower()
    milestone = next((known.title for known in repo.milestones if known.number == issue.milestone), "")
    facts = {
        "repo": value.lower() == repo.full_name.lower(),
        "user": value.lower() == repo.owner.lower(),
        "org": value.lower() == repo.owner.lower(),
        "label": value.lower() in (label.lower() for label in issue.labels),
        "milestone": value == milestone,
        "author": value == issue.author,
        "assignee": value in issue.assignees,
        "state": value == issue.state,
        "head": issue.pull is not None and issue.pull.head == value,
        "base": issue.pull is not None and issue.pull.base == value,
        "type": (value == "pr") == (issue.pull is not None),
        "is": _is(issue, value),
        "no": not {"label": issue.labels, "milestone": milestone, "assignee": issue.assignees}.get(value),
        "in": True,
        "updated": _is_after(issue.updated, value),
        "created": _is_after(issue.created, value),
        "review-requested": issue.pull is not None and value in issue.pull.requested,
        "review": issue.pull is not None and (issue.pull.decide() or "").lower() == value,
    }
    return facts.get(name, False)


def _is(issue: HubIssue, value: str) -> bool:
    pull = issue.pull
    return {
        "issue": pull is None,
        "pr": pull is not None,
        "pull-request": pull is not None,
        "open": issue.state == "open",
        "closed": issue.state == "closed",
        "draft": pull is not None and pull.draft,
        "merged": pull is not None and pull.merged_at is not None,
    }.get(value, False)


def _is_after(instant: float, value: str) -> bool:
    wanted = parse_time(value.lstrip("<>="))
    return instant < wanted if value.startswith("<") else instant >= wanted


def _show_hook(show: Presenter, repo: HubRepo, hook: HubHook) -> dict[str, Any]:
    """Show a webhook; never its secret."""
    secret = {"secret": "********"} if hook.secret else {}
    config = {"url": hook.url, "content_type": "json", "insecure_ssl": "0", **secret}
    return show.fill("hook", repo, hook=hook, url=f"{show.repo_url(repo)}/hooks/{hook.id}", config=config)


def _show_delivery(delivery: HookDelivery) -> dict[str, Any]:
    """Show a delivery of a webhook."""
    status = "OK" if 200 <= delivery.status_code < 300 else "failed"
    return SHAPES.fill("delivery", it=delivery, status=status)


async def list_hooks(ask: Exchange) -> Response:
    """List the webhooks of a repository."""
    repo = ask.repo("repository_hooks")
    return ask.page([_show_hook(ask.show, repo, hook) for hook in repo.hooks])


async def create_hook(ask: Exchange) -> Response:
    """Create a webhook and send it a ping."""
    repo = ask.repo("repository_hooks")
    body = ask.table()
    config = body.get("config") or {}
    if not config.get("url"):
        raise invalid("Hook", "missing_field", field="url")
    if any(hook.url == config["url"] for hook in repo.hooks):
        raise invalid("Hook", "custom", message="Hook already exists on this repository")
    events = list(body.get("events") or ["push"])
    hook = HubHook(ask.hub.new_id(), config["url"], config.get("secret") or "", events)
    hook.active = body.get("active", True)
    repo.hooks.append(hook)
    _ping(ask, repo, hook)
    return created(_show_hook(ask.show, repo, hook))


def _ping(ask: Exchange, repo: HubRepo, hook: HubHook) -> None:
    events, hook.events = hook.events, ["ping"]
    others, repo.hooks = repo.hooks, [hook]
    ask.hub.announce(repo, "ping", None, {"zen": "Keep it logically awesome.", "hook_id": hook.id})
    hook.events, repo.hooks = events, others


def _hook(ask: Exchange) -> tuple[HubRepo, HubHook]:
    repo = ask.repo("repository_hooks")
    return repo, pick(hook for hook in repo.hooks if hook.id == ask.number("hook"))


async def show_hook(ask: Exchange) -> Response:
    """Show or change a webhook."""
    repo, hook = _hook(ask)
    if ask.request.method == "GET":
        return JSONResponse(_show_hook(ask.show, repo, hook))
    body = ask.table()
    hook.active = body.get("active", hook.active)
    hook.events = list(body.get("events", hook.events))
    config = body.get("config") or {}
    hook.url, hook.secret = config.get("url", hook.url), config.get("secret", hook.secret)
    return JSONResponse(_show_hook(ask.show, repo, hook))


async def delete_hook(ask: Exchange) -> Response:
    """Delete a webhook."""
    repo, hook = _hook(ask)
    repo.hooks.remove(hook)
    return Response(status_code=204)


async def ping_hook(ask: Exchange) -> Response:
    """Send a ping to a webhook."""
    _ping(ask, *_hook(ask))
    return Response(status_code=204)


async def list_deliveries(ask: Exchange) -> Response:
    """List the deliveries of a webhook, newest first."""
    _, hook = _hook(ask)
    return ask.page([_show_delivery(delivery) for delivery in hook.deliveries])


def _delivery(ask: Exchange, hook: HubHook) -> HookDelivery:
    return pick(known for known in hook.deliveries if known.id == ask.number("delivery"))


async def show_delivery(ask: Exchange) -> Response:
    """Show one delivery with what was sent."""
    _, hook = _hook(ask)
    found = _delivery(ask, hook)
    sent = {"headers": {"X-GitHub-Delivery": found.guid}, "payload": found.payload.decode()}
    return JSONResponse({**_show_delivery(found), "url": hook.url, "request": sent})


async def redeliver(ask: Exchange) -> Response:
    """Deliver again, under the same GUID."""
    _, hook = _hook(ask)
    again = copy.copy(_delivery(ask, hook))
    again.id, again.redelivery, again.status_code = ask.hub.new_id(), True, 0
    ask.hub.deliver(hook, again)
    return JSONResponse({}, 202)


_HOOK = f"{REPO}/hooks/{{hook:int}}"
ROUTES: list[tuple[str, str, Handler]] = [
    ("GET", "/", show_root),
    ("GET", "/meta", show_meta),
    ("GET", "/versions", list_versions),
    ("GET", "/user", show_user),
    ("GET", "/users/{login}", show_user),
    ("GET", "/rate_limit", show_limits),
    ("GET", "/search/issues", search_issues),
    ("GET", REPO, show_repo),
    ("GET", f"{REPO}/branches", list_branches),
    ("GET", f"{REPO}/branches/{{branch:path}}", show_branch),
    ("GET", f"{REPO}/git/ref/heads/{{branch:path}}", show_ref),
    ("GET", f"{REPO}/git/refs/heads/{{branch:path}}", show_ref),
    ("DELETE", f"{REPO}/git/refs/heads/{{branch:path}}", show_ref),
    ("GET", f"{REPO}/hooks", list_hooks),
    ("POST", f"{REPO}/hooks", create_hook),
    ("GET", _HOOK, show_hook),
    ("PATCH", _HOOK, show_hook),
    ("DELETE", _HOOK, delete_hook),
    ("POST", f"{_HOOK}/pings", ping_hook),
    ("GET", f"{_HOOK}/deliveries", list_deliveries),
    ("GET", f"{_HOOK}/deliveries/{{delivery:int}}", show_delivery),
    ("POST", f"{_HOOK}/deliveries/{{delivery:int}}/attempts", redeliver),
]
