"""The claude-cloud agent: sessions of Claude Managed Agents. See `segue help clouds`.

A session is created idle, with our key in its metadata, and works only after its first message. Finished
work is an idle session too: what counts is a `session.status_idle` event after our message.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from msgspec.structs import replace

from segue.agents.cloud.agent import CloudKind
from segue.agents.cloud.calls import ask, compute_age, listen, parse_time, read_body, read_name, send
from segue.agents.cloud.errors import CloudService, judge_reason
from segue.agents.cloud.launch import CloudProfile
from segue.agents.cloud.options import CloudOptions
from segue.agents.cloud.transcript import Transcript
from segue.agents.cloud.vendor import CloudLook, CloudOrder, CloudSign, CloudVendor
from segue.agents.local.values import Json, as_count, as_list, as_table, as_text, parse_object
from segue.domain.events import AgentUsage
from segue.domain.options import Amount, Count
from segue.domain.outcome import Failure, FailureKind
from segue.ports import Capabilities, Problem
from segue.prompts.cloud import make_mark
from segue.system.http.client import HttpClient

_KEY = "segue_launch"
_STREAMS = 20
_PAGES = 50
_PAGE = "1000"
_MARGIN = 60.0
"""Seconds before the newest event from which events are listed again: some may appear late."""
_STOP_PAUSES = (0.0, 0.5, 1.0, 2.0, 4.0)
_SERVICE = CloudService(
    "Anthropic's API", "Anthropic", "ANTHROPIC_API_KEY and its workspace", "API 2026-04-01"
)
_STATES = frozenset({"idle", "running", "rescheduling", "terminated"})
_SILENT = frozenset(
    {"session.status_running", "session.status_rescheduled", "agent.thinking", "session.usage"}
)
"""Events that add nothing to other events."""
_TELLS = frozenset({"session.status_idle", "session.status_terminated", "session.error", "session.deleted"})
"""Events after which the session is looked at."""
_BY_ERROR = {
    "billing_error": FailureKind.USAGE_LIMIT,
    "model_rate_limited_error": FailureKind.RATE_LIMIT,
    "model_overloaded_error": FailureKind.OUTAGE,
    "tool_use_limit_reached_error": FailureKind.MAX_TURNS,
    "compaction_limit_reached_error": FailureKind.CONTEXT,
}


class ClaudeCloudOptions(CloudOptions, frozen=True):
    """The table `[agents.claude-cloud]`."""

    base_url: str = "https://api.anthropic.com"
    """The address of the API."""
    agent_id: str = ""
    """The managed agent to run, made in Anthropic's console or with its API."""
    agent_version: Count | None = None
    """The version of that agent; the latest one if unset."""
    environment_id: str = ""
    """The environment its sessions run in."""
    repository_token_env: str | None = None
    """The environment variable whose GitHub token the session clones and pushes with; it is sent to
    Anthropic."""
    vault_ids: tuple[str, ...] = ()
    """Vaults whose credentials the session may use."""
    max_cost_usd: Amount | None = None
    """List price at which Anthropic stops the session."""
    stream: bool = True
    """Stream sessions as they work."""


class ClaudeCloud(CloudVendor):
    """The API of Claude Managed Agents."""

    starts_idle = True

    def __init__(self, http: HttpClient, options: ClaudeCloudOptions) -> None:
        self._http, self._options = http, options

    async def create(self, order: CloudOrder, deadline: float) -> str:
        """Create an idle session; one that nobody sends a message does no work."""
        options = self._options
        agent: dict[str, Any] = {"type": "agent", "id": options.agent_id}
        if order.model:
            agent |= {"type": "agent_with_overrides", "model": order.model}
        if options.agent_version is not None:
            agent["version"] = options.agent_version
        repository: dict[str, Any] = {"type": "github_repository", "url": order.repository}
        if options.repository_token_env:
            repository["authorization_token"] = os.environ.get(options.repository_token_env, "").strip()
        if order.base:
            repository["checkout"] = {"type": "branch", "name": order.base}
        body: dict[str, Any] = {
            "agent": agent if len(agent) > 2 else options.agent_id,
            "environment_id": options.environment_id,
            "title": order.title,
            "metadata": {_KEY: order.key, "segue_branch": order.branch},
            "resources": [repository],
        }
        if options.vault_ids:
            body["vault_ids"] = list(options.vault_ids)
        if options.max_cost_usd is not None:
            cents = {"amount": str(max(1, round(options.max_cost_usd * 100))), "currency": "USD"}
            body["budget"] = {"type": "limit", "max_list_cost": cents}
        answer = await send(self._http, "POST", "/v1/sessions", deadline, body=body)
        return read_name(answer, read_body(answer), "id", "a session")

    async def find(self, order: CloudOrder, since: float, deadline: float) -> str | None:
        """Return the session whose metadata has our key; there is no filter for that."""
        query = {"agent_id": self._options.agent_id, "created_at[gte]": _format_time(since), "limit": "100"}
        async for session in self._pages("/v1/sessions", query, deadline):
            if as_table(session.get("metadata")).get(_KEY) == order.key:
                return as_text(session.get("id")) or None
        return None

    async def has_message(self, session: str, key: str, deadline: float) -> bool:
        """Return whether a message with our mark is there, queued or not."""
        query = {"types[]": "user.message", "limit": _PAGE}
        async for event in self._pages(f"{_path(session)}/events", query, deadline):
            if _is_ours(event, key):
                return True
        return False

    async def say(self, session: str, order: CloudOrder, deadline: float) -> None:
        """Send a message."""
        message = {"type": "user.message", "content": [{"type": "text", "text": order.prompt}]}
        await send(self._http, "POST", f"{_path(session)}/events", deadline, body={"events": [message]})

    async def look(self, session: str, order: CloudOrder, seen: Transcript, deadline: float) -> CloudLook:
        """Read the state and the events since the last look."""
        answer = await send(self._http, "GET", _path(session), deadline)
        found = read_body(answer)
        seen.notes["key"] = order.key
        query = {"order": "asc", "limit": _PAGE}
        if newest := seen.notes.get("newest"):
            query["created_at[gte]"] = _format_time(newest - _MARGIN)
        async for event in self._pages(f"{_path(session)}/events", query, deadline):
            self.read(event, seen)
        word = as_text(found.get("status"))
        look = CloudLook(
            word,
            known=word in _STATES,
            age=compute_age(answer, found.get("created_at")),
            usage=_read_usage(as_table(found.get("usage"))),
        )
        return _judge(look, seen)

    async def stop(self, session: str, deadline: float) -> None:
        """Interrupt the session, wait until it is idle, and archive it: a running one cannot be archived."""
        path = _path(session)
        body = {"events": [{"type": "user.interrupt"}]}
        await send(self._http, "POST", f"{path}/events", deadline, body=body, repeatable=True)
        for pause in _STOP_PAUSES:
            await asyncio.sleep(pause)
            if as_text((await ask(self._http, "GET", path, deadline)).get("status")) != "running":
                break
        await send(self._http, "POST", f"{path}/archive", deadline, repeatable=True)

    async def stream(self, session: str, silence: float) -> AsyncGenerator[Json | None, None]:
        """Yield events that happen from now on: a stream cannot be resumed, only the history shows more."""
        path = f"{_path(session)}/events/stream"
        async with aclosing(listen(self._http, path, {}, silence)) as frames:
            async for frame in frames:
                event = parse_object(frame.data) if frame is not None else None
                if frame is None or event is not None:
                    yield event

    def read(self, event: Json, seen: Transcript) -> CloudSign:
        """Add an event to the transcript; the type alone says what it is."""
        kind, name, at = as_text(event.get("type")), as_text(event.get("id")), event.get("processed_at")
        when = parse_time(at)
        if kind == "user.message" and _is_ours(event, seen.notes.get("key", "")):
            if seen.muted:
                seen.muted = False
                seen.notes.pop("error", None)
            seen.notes["asked"] = when
            seen.notes.setdefault("first", "others" not in seen.notes)
            return CloudSign.WORK
        if when is None or not seen.is_new(name):
            return CloudSign.WORK
        seen.notes["newest"] = max(when, seen.notes.get("newest") or 0.0)
        if kind == "user.message":
            seen.notes["others"] = True
        if kind == "session.status_running":
            seen.notes["ran"] = when
        elif kind in ("session.status_idle", "session.status_terminated"):
            stop = (when, as_table(event.get("stop_reason")))
            seen.notes["stop"] = max(stop, seen.notes.get("stop", stop), key=lambda known: known[0])
        elif kind == "session.error":
            _note_error(as_table(event.get("error")), seen)
        elif kind not in _SILENT:
            _show(kind, name, event, seen)
        return CloudSign.STATE if kind in _TELLS else CloudSign.WORK

    def page(self, session: str) -> str:  # noqa: ARG002 - the API names none
        """Return nothing: no address of a session's page is documented."""
        return ""

    async def _pages(
        self, path: str, query: Mapping[str, str], deadline: float
    ) -> AsyncGenerator[Json, None]:
        page = ""
        for _ in range(_PAGES):
            more = {"page": page} if page else {}
            found = await ask(self._http, "GET", path, deadline, query={**query, **more})
            for item in as_list(found.get("data")):
                yield as_table(item)
            page = as_text(found.get("next_page"))
            if not page:
                return


def _show(kind: str, name: str, event: Json, seen: Transcript) -> None:
    match kind:
        case "agent.message":
            seen.say(_read_text(event))
        case "agent.tool_use" | "agent.mcp_tool_use" | "agent.custom_tool_use":
            seen.begin_tool(as_text(event.get("name")), name, event.get("input"))
        case "agent.tool_result" | "agent.mcp_tool_result":
            called = as_text(event.get("tool_use_id")) or as_text(event.get("mcp_tool_use_id"))
            seen.end_tool(called, "error" if event.get("is_error") else "success", event.get("content"))
        case _ if kind.startswith(("user.", "span.", "session.", "agent.", "workflow_run.", "system.")):
            seen.add(kind, dict(event))
        case _:
            seen.add_unknown(kind, dict(event))


def _note_error(error: Json, seen: Transcript) -> None:
    kind = as_text(error.get("type"))
    seen.add("session.error", dict(error))
    seen.notes["error"] = error
    if kind.startswith("repository_"):
        seen.notes["repository"] = error


def _judge(look: CloudLook, seen: Transcript) -> CloudLook:
    """Return what the state and the events say: has the turn that began with our message ended, and how?"""
    if lost := seen.notes.get("repository"):
        # The session would work on without the repository.
        what = f"the session has no repository: {as_text(lost.get('message'))} ({as_text(lost.get('type'))})"
        return _end(look, Failure(FailureKind.NOT_STARTED, what), works_on=look.word == "running")
    if look.word == "terminated":
        return _end(look, _read_failure(seen))
    asked, (when, reason) = seen.notes.get("asked"), seen.notes.get("stop", (None, {}))
    if look.word != "idle" or asked is None or when is None:
        return look
    # A message may count as processed only at the end of its turn: then a run before the end will do.
    ran = seen.notes.get("ran") if seen.notes.get("first") else None
    if when < asked and (ran is None or when < ran):
        return look
    match as_text(reason.get("type")):
        case "end_turn":
            return _end(look, None)
        case "requires_action":
            what = "the session waits for a confirmation that nobody gives; let its agent use tools unasked"
            return _end(look, Failure(FailureKind.REFUSED, what))
        case "budget_reached":
            what = "the session reached its budget (agents.claude-cloud.max_cost_usd)"
            return _end(look, Failure(FailureKind.USAGE_LIMIT, what))
        case "refusal":
            return _end(look, Failure(FailureKind.REFUSED, "Claude refused to answer"))
        case "retries_exhausted":
            return _end(look, _read_failure(seen))
        case other:
            return _end(
                look, Failure(FailureKind.UNKNOWN, f"the session stopped for an unknown reason: {other}")
            )


def _end(look: CloudLook, failure: Failure | None, works_on: bool = False) -> CloudLook:
    return replace(look, ended=True, failure=failure, works_on=works_on)


def _read_failure(seen: Transcript) -> Failure:
    """Return what the last error of the session means."""
    error = as_table(seen.notes.get("error"))
    kind, said = as_text(error.get("type")), as_text(error.get("message"))
    if kind in _BY_ERROR:
        return Failure(_BY_ERROR[kind], f"Claude's session failed: {said} ({kind})")
    return judge_reason(said, _SERVICE)


def _read_usage(usage: Json) -> AgentUsage | None:
    if not usage:
        return None
    written = as_table(usage.get("cache_creation"))
    return AgentUsage(
        as_count(usage.get("input_tokens")),
        as_count(usage.get("output_tokens")),
        _read_cost(as_table(usage.get("list_cost"))),
        as_count(usage.get("cache_read_input_tokens")),
        sum(as_count(count) for count in written.values()),
    )


def _read_cost(cost: Json) -> float | None:
    """Return the list price in dollars; the API writes cents as a text."""
    amount = as_text(cost.get("amount"))
    return int(amount) / 100 if amount.isdecimal() and cost.get("currency") == "USD" else None


def _is_ours(event: Json, key: str) -> bool:
    return bool(key) and make_mark(key) in _read_text(event)


def _read_text(event: Json) -> str:
    blocks = (as_table(block) for block in as_list(event.get("content")))
    return "".join(as_text(block.get("text")) for block in blocks if block.get("type") == "text")


def _format_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def _path(session: str) -> str:
    return f"/v1/sessions/{quote(session, safe='')}"


def _make_headers(key: str) -> Mapping[str, str]:
    return {
        "x-api-key": key,
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "managed-agents-2026-04-01",
    }


def _check(options: ClaudeCloudOptions) -> list[Problem]:
    missing = [name for name in ("agent_id", "environment_id") if not getattr(options, name)]
    fix = "Create an agent and an environment, and name them in the settings: see `segue help clouds`"
    problems = [Problem(f"agents.claude-cloud.{name} is not set.", fix) for name in missing]
    token = options.repository_token_env
    if token and not os.environ.get(token, "").strip():
        problems.append(Problem(f"{token} is not set.", "Set it to a token for the repository."))
    return problems


CLAUDE_CLOUD = CloudKind(
    CloudProfile(
        name="claude-cloud",
        service=_SERVICE,
        keys=("ANTHROPIC_API_KEY",),
        can=Capabilities(
            follow_up=True,
            cloud=True,
            streams=True,
            reports_usage=True,
            reports_cost=True,
            marks_prompt=True,
        ),
        headers=_make_headers,
        connect=ClaudeCloud,
        where="https://platform.claude.com",
        check=_check,
        pushes=True,
        takes_model=True,
        options=ClaudeCloudOptions,
        streams=lambda options: _STREAMS if options.stream else 0,
    )
)
