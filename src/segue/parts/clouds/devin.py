"""The devin agent: sessions of Devin's API v3. See `segue help clouds`.

A session is found again by its tag. It starts at a branch only because the prompt says so, and names its work
only by a pull request: the branch is looked for on the remote.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from typing import Annotated
from urllib.parse import quote

from msgspec import Meta
from msgspec.structs import replace

from segue.agents.cloud.agent import CloudKind
from segue.agents.cloud.calls import ask, compute_age, parse_time, read_body, read_name, send
from segue.agents.cloud.errors import CloudService, judge_reason
from segue.agents.cloud.launch import CloudProfile
from segue.agents.cloud.options import CloudOptions
from segue.agents.cloud.transcript import Transcript
from segue.agents.cloud.vendor import CloudLook, CloudOrder, CloudVendor, split_address
from segue.agents.local.values import Json, as_list, as_table, as_text
from segue.domain.options import Count
from segue.domain.outcome import Failure, FailureKind
from segue.ports import Capabilities, Problem
from segue.prompts.cloud import make_mark
from segue.system.http.client import HttpClient

_ORG = "DEVIN_ORG_ID"
_PAGES = 20
_PAGE = "200"
_TITLE_CHARS = 80
_SERVICE = CloudService(
    "Devin's API", "Devin", "DEVIN_API_KEY, the organization and what they allow", "API v3"
)
_WORKING = frozenset({"new", "claimed", "running", "resuming"})
_STATES = _WORKING | {"suspended", "exit", "error"}
_NO_CREDIT = frozenset({"usage_limit_exceeded", "out_of_credits", "out_of_quota", "payment_declined"})
_WAITS = frozenset({"waiting_for_user", "waiting_for_approval"})


class DevinOptions(CloudOptions, frozen=True):
    """The table `[agents.devin]`."""

    base_url: str = "https://api.devin.ai"
    """The address of the API."""
    organization: Annotated[str, Meta(pattern=r"^[\w-]*$")] = ""
    """The id of the organization; DEVIN_ORG_ID of the environment if unset."""
    max_acu_limit: Count | None = None
    """ACUs at which Devin stops a session."""


class DevinCloud(CloudVendor):
    """Devin's API."""

    def __init__(self, http: HttpClient, options: DevinOptions) -> None:
        self._http, self._options = http, options
        self._sessions = f"/v3/organizations/{_read_org(options)}/sessions"
        self._pages: dict[str, str] = {}

    async def create(self, order: CloudOrder, deadline: float) -> str:
        """Launch a session."""
        body = {
            "prompt": order.prompt,
            "title": order.title[:_TITLE_CHARS],
            "tags": [order.key],
            "repos": ["/".join(split_address(order.repository))],
        }
        if self._options.max_acu_limit is not None:
            body["max_acu_limit"] = self._options.max_acu_limit  # type: ignore[assignment]
        answer = await send(self._http, "POST", self._sessions, deadline, body=body)
        found = read_body(answer)
        name = read_name(answer, found, "session_id", "a session")
        self._pages[name] = as_text(found.get("url"))
        return name

    async def find(self, order: CloudOrder, since: float, deadline: float) -> str | None:
        """Return the session with our tag."""
        query = {"tags": order.key, "created_after": str(int(since)), "first": _PAGE}
        async for session in self._list(self._sessions, query, deadline):
            if order.key in as_list(session.get("tags")):
                return as_text(session.get("session_id")) or None
        return None

    async def has_message(self, session: str, key: str, deadline: float) -> bool:
        """Return whether a message with our mark is there."""
        messages = [one async for one in self._list(f"{self._path(session)}/messages", {}, deadline)]
        return any(make_mark(key) in as_text(one.get("message")) for one in messages)

    async def say(self, session: str, order: CloudOrder, deadline: float) -> None:
        """Send a message, which wakes a session that sleeps."""
        body = {"message": order.prompt}
        await send(self._http, "POST", f"{self._path(session)}/messages", deadline, body=body)

    async def look(self, session: str, order: CloudOrder, seen: Transcript, deadline: float) -> CloudLook:
        """Read the state and the messages."""
        seen.notes.setdefault("later", seen.muted)
        answer = await send(self._http, "GET", self._path(session), deadline)
        found = read_body(answer)
        self._pages[session] = as_text(found.get("url"))
        messages = [one async for one in self._list(f"{self._path(session)}/messages", {}, deadline)]
        for message in sorted(messages, key=lambda one: parse_time(one.get("created_at")) or 0.0):
            _show(message, order.key, seen)
        word, detail = as_text(found.get("status")), as_text(found.get("status_detail"))
        pulls = (as_text(as_table(one).get("pr_url")) for one in as_list(found.get("pull_requests")))
        look = CloudLook(
            f"{word}/{detail}" if detail else word,
            known=word in _STATES,
            pulls=tuple(filter(None, pulls)),
            age=compute_age(answer, found.get("created_at")),
            facts={"acus": found.get("acus_consumed")},
        )
        return _judge(look, word, detail, seen)

    async def stop(self, session: str, deadline: float) -> None:
        """End the session for good; Devin has no other stop."""
        await send(self._http, "DELETE", self._path(session), deadline)

    def page(self, session: str) -> str:
        """Return the page that the API has named."""
        return self._pages.get(session, "")

    async def _list(self, path: str, query: dict[str, str], deadline: float) -> AsyncGenerator[Json, None]:
        for _ in range(_PAGES):
            found = await ask(self._http, "GET", path, deadline, query=query)
            for item in as_list(found.get("items")):
                yield as_table(item)
            after = as_text(found.get("end_cursor"))
            if not after or found.get("has_next_page") is not True:
                return
            query = {**query, "after": after}

    def _path(self, session: str) -> str:
        return f"{self._sessions}/{quote(session, safe='')}"


def _show(message: Json, key: str, seen: Transcript) -> None:
    text, source = as_text(message.get("message")), as_text(message.get("source"))
    if make_mark(key) in text:
        seen.muted = False
    elif source == "user":
        return
    elif seen.is_new(as_text(message.get("event_id"))) and not seen.muted:
        seen.notes["answered"] = True
        seen.say(text)


def _judge(look: CloudLook, word: str, detail: str, seen: Transcript) -> CloudLook:
    """Return what the state means; after a follow-up it may still be that of the turn before."""
    if word == "exit":
        return replace(look, ended=True)
    if word == "error":
        return replace(look, ended=True, failure=judge_reason(detail, _SERVICE))
    if word == "running" and detail in ("", "working"):
        seen.notes["answered"] = True
    if seen.notes["later"] and not seen.notes.get("answered"):
        return look
    if word == "running" and detail == "finished":
        return replace(look, ended=True)
    failure = None
    if word == "running" and detail in _WAITS:
        failure = Failure(FailureKind.NO_RESULT, f"Devin waits for a person ({detail}), and nobody answers")
    elif word == "suspended" and detail in _NO_CREDIT:
        failure = Failure(FailureKind.USAGE_LIMIT, f"Devin has suspended the session: {detail}")
    elif word == "suspended" and detail == "inactivity":
        failure = Failure(FailureKind.NO_RESULT, "Devin fell asleep before it had finished")
    elif word == "suspended":
        failure = Failure(
            FailureKind.UNKNOWN, f"Devin's session was suspended: {detail or 'for no reason named'}"
        )
    return replace(look, ended=failure is not None, failure=failure)


def _read_org(options: DevinOptions) -> str:
    return quote(options.organization or os.environ.get(_ORG, "").strip(), safe="")


def _check(options: DevinOptions) -> list[Problem]:
    if _read_org(options):
        return []
    return [Problem("The organization of Devin is not known.", f"Set {_ORG}, or agents.devin.organization.")]


DEVIN = CloudKind(
    CloudProfile(
        name="devin",
        service=_SERVICE,
        keys=("DEVIN_API_KEY",),
        can=Capabilities(follow_up=True, cloud=True, marks_prompt=True),
        headers=lambda key: {"Authorization": f"Bearer {key}"},
        connect=DevinCloud,
        where="https://app.devin.ai (a service user, prefix cog_)",
        check=_check,
        pushes=True,
        options=DevinOptions,
    )
)
