"""The copilot-cloud agent: agent tasks of GitHub Copilot. See `segue help clouds`.

Each launch gets a branch of ours, on which the task works and by which it is found again. A task can neither
be stopped nor continued, and says nothing: only its branch shows what it did.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace

from segue.agents.cloud.agent import CloudKind
from segue.agents.cloud.calls import ask, compute_age, parse_time, read_body, read_name, send
from segue.agents.cloud.errors import CloudError, CloudService, judge_reason
from segue.agents.cloud.launch import CloudProfile
from segue.agents.cloud.options import CloudOptions
from segue.agents.cloud.transcript import Transcript
from segue.agents.cloud.vendor import CloudLook, CloudOrder, CloudVendor, split_address
from segue.agents.local.values import Json, as_list, as_table, as_text
from segue.domain.outcome import Failure, FailureKind
from segue.ports import Capabilities, Problem
from segue.prompts.cloud import make_mark
from segue.system.http.client import HttpClient

_KEYS = ("GH_TOKEN", "GITHUB_TOKEN")
_PAGES = 10
_PAGE = "100"
_NANO = 1e9
_SERVICE = CloudService(
    "GitHub's API", "Copilot", "the token and its permission for agent tasks", "2022-11-28"
)
_STATES = frozenset(
    {"queued", "in_progress", "idle", "waiting_for_user", "completed", "failed", "timed_out", "cancelled"}
)


class CopilotCloudOptions(CloudOptions, frozen=True):
    """The table `[agents.copilot-cloud]`."""

    base_url: str = "https://api.github.com"
    """The address of the API."""
    create_pull_request: bool = False
    """Let Copilot open a pull request."""


class CopilotCloud(CloudVendor):
    """GitHub's API for agent tasks."""

    def __init__(self, http: HttpClient, options: CopilotCloudOptions) -> None:
        self._http, self._options = http, options
        self._pages: dict[str, str] = {}

    async def create(self, order: CloudOrder, deadline: float) -> str:
        """Create our branch, which may be repeated, and then the task."""
        owner, name = split_address(order.repository)
        base = order.base or await self._default_branch(owner, name, deadline)
        await self._make_branch(owner, name, base, order.branch, deadline)
        body: dict[str, Any] = {
            "prompt": order.prompt,
            "create_pull_request": self._options.create_pull_request,
            "base_ref": base,
            "head_ref": order.branch,
        }
        if order.model:
            body["model"] = order.model
        answer = await send(self._http, "POST", _tasks(owner, name), deadline, body=body)
        found = read_body(answer)
        task = read_name(answer, found, "id", "a task")
        self._pages[task] = as_text(found.get("html_url"))
        return task

    async def find(self, order: CloudOrder, since: float, deadline: float) -> str | None:
        """Return the task that works on our branch; a list does not show it, so each new task is asked."""
        owner, name = split_address(order.repository)
        when = datetime.fromtimestamp(since, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        for page in range(1, _PAGES + 1):
            query = {"per_page": _PAGE, "page": str(page), "since": when}
            found = await ask(self._http, "GET", _tasks(owner, name), deadline, query=query)
            tasks = [as_table(task) for task in as_list(found.get("tasks"))]
            for task in tasks:
                created = parse_time(task.get("created_at"))
                if created is not None and created < since:
                    continue
                known = as_text(task.get("id"))
                if await self._is_ours(f"{_tasks(owner, name)}/{quote(known, safe='')}", order, deadline):
                    return known
            if len(tasks) < int(_PAGE):
                return None
        return None

    async def look(self, session: str, order: CloudOrder, seen: Transcript, deadline: float) -> CloudLook:  # noqa: ARG002
        """Read the state; there is nothing else to read."""
        answer = await send(self._http, "GET", f"/agents/tasks/{quote(session, safe='')}", deadline)
        task = read_body(answer)
        self._pages[session] = as_text(task.get("html_url"))
        sessions = [as_table(one) for one in as_list(task.get("sessions"))]
        sessions.sort(key=lambda one: as_text(one.get("created_at")))
        newest = sessions[-1] if sessions else {}
        artifacts = [as_table(one) for one in as_list(task.get("artifacts"))]
        data = [(one.get("type"), as_table(one.get("data"))) for one in artifacts]
        named = [as_text(found.get("head_ref")) for kind, found in data if kind == "branch"]
        word = as_text(task.get("state"))
        look = CloudLook(
            word,
            known=word in _STATES,
            branches=tuple(filter(None, (*named, as_text(newest.get("head_ref"))))),
            age=compute_age(answer, task.get("created_at")),
            facts={
                # GitHub's own ids: no numbers of pull requests.
                "pull_request_ids": [found.get("id") for kind, found in data if kind == "pull"],
                **_read_usage([as_table(one.get("usage")) for one in sessions]),
            },
        )
        return _judge(look, newest)

    def page(self, session: str) -> str:
        """Return the page that the API has named."""
        return self._pages.get(session, "")

    async def _is_ours(self, path: str, order: CloudOrder, deadline: float) -> bool:
        task = await ask(self._http, "GET", path, deadline)
        sessions = [as_table(one) for one in as_list(task.get("sessions"))]
        on_branch = any(one.get("head_ref") == order.branch for one in sessions)
        return on_branch or any(make_mark(order.key) in as_text(one.get("prompt")) for one in sessions)

    async def _default_branch(self, owner: str, name: str, deadline: float) -> str:
        found = await ask(self._http, "GET", f"/repos/{owner}/{name}", deadline)
        return as_text(found.get("default_branch")) or "main"

    async def _make_branch(self, owner: str, name: str, base: str, branch: str, deadline: float) -> None:
        refs = f"/repos/{owner}/{name}/git"
        try:
            found = await ask(self._http, "GET", f"{refs}/ref/heads/{quote(base)}", deadline)
        except CloudError as error:
            if error.gone:
                raise CloudError("branch_unknown", f"there is no branch {base}", status=400) from None
            raise
        body = {"ref": f"refs/heads/{branch}", "sha": as_table(found.get("object")).get("sha")}
        try:
            await send(self._http, "POST", f"{refs}/refs", deadline, body=body, repeatable=True)
        except CloudError as error:
            if "already exists" not in error.message.lower():
                raise


def _judge(look: CloudLook, newest: Json) -> CloudLook:
    failure: Failure | None = None
    match look.word:
        case "completed":
            pass
        case "idle" if newest.get("completed_at"):
            pass
        case "failed":
            failure = judge_reason(as_text(as_table(newest.get("error")).get("message")), _SERVICE)
        case "timed_out":
            failure = Failure(FailureKind.TIMEOUT, "Copilot's own time limit of 59 minutes has passed")
        case "cancelled":
            failure = Failure(FailureKind.UNKNOWN, "the task was stopped by someone else")
        case "waiting_for_user":
            failure = Failure(FailureKind.NO_RESULT, "Copilot waits for a person, and nobody answers")
        case _:
            return look
    return replace(look, ended=True, failure=failure)


def _read_usage(used: list[Json]) -> dict[str, float]:
    """Return what the task has used, in Copilot's own units: they are no money."""
    found: dict[str, float] = {}
    for usage in used:
        kind, amount = as_text(usage.get("type")), usage.get("amount")
        if kind and isinstance(amount, int | float):
            found[kind] = found.get(kind, 0.0) + (amount / _NANO if kind == "ai_credits" else amount)
    return found


def _tasks(owner: str, name: str) -> str:
    return f"/agents/repos/{owner}/{name}/tasks"


def _make_headers(key: str) -> Mapping[str, str]:
    return {
        "Authorization": f"Bearer {key}",
        "Accept": "application/vnd.github+json",
        "X-GitHub-Api-Version": "2022-11-28",
    }


def _check(_options: CopilotCloudOptions) -> list[Problem]:
    key = next((found for name in _KEYS if (found := os.environ.get(name, "").strip())), "")
    if not key.startswith("ghs_"):
        return []
    fix = "Set GH_TOKEN to a token of a person, with the permission for agent tasks."
    return [Problem("The token of a GitHub App's installation cannot start agent tasks.", fix)]


COPILOT_CLOUD = CloudKind(
    CloudProfile(
        name="copilot-cloud",
        service=_SERVICE,
        keys=_KEYS,
        can=Capabilities(cloud=True, marks_prompt=True, unstoppable=True),
        headers=_make_headers,
        connect=CopilotCloud,
        where="https://github.com/settings/personal-access-tokens",
        check=_check,
        takes_model=True,
        options=CopilotCloudOptions,
    )
)
