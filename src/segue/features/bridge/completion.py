"""Reports the end of a subagent to a URL of the user, signed and in the format of Cursor's own webhooks."""

from __future__ import annotations

import asyncio
import json
import os
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from segue.domain.results import StepFacts, StepResult
from segue.domain.text import keep_start
from segue.features.bridge.context import ConversationContext
from segue.features.bridge.events import BridgeWebhook
from segue.features.bridge.steps import CompletionOutput
from segue.features.notify.webhook import sign
from segue.system.http.client import HttpClient, HttpError, HttpPolicy

_SUMMARY = 4000
_STATUS = {"done": "FINISHED"}
_POLICY = HttpPolicy(timeout=20.0, attempts=1)
_PAUSES = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds between the attempts at a receiver that cannot be reached or is in trouble."""


async def report_completion(context: ConversationContext, key: str, facts: dict[str, Any]) -> None:
    """Post the end of a subagent; a delivery that is sent again keeps its id."""
    url = context.settings.completion_url
    if url is None:
        return

    async def work(token: str) -> StepResult[CompletionOutput]:
        body = _make_body(facts)
        problem, again = await _post(context, url, token, body)
        for pause in _PAUSES:
            if not again:
                break
            await asyncio.sleep(pause)
            problem, again = await _post(context, url, token, body)
        about = (str(facts.get("agent_id", "")), str(facts["status"]))
        await context.emit(BridgeWebhook(*about, "out", problem or "delivered", token), key)
        return StepResult(not problem, CompletionOutput(problem))

    step = f"{key}/completion"
    await context.journal.step(step, CompletionOutput, work, facts=StepFacts(phase="completion"))


def _make_body(facts: dict[str, Any]) -> dict[str, Any]:
    target = {"url": facts.get("url", ""), "branchName": facts.get("branch", "")}
    return {
        "event": "statusChange",
        "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "id": facts.get("agent_id", ""),
        "status": _STATUS.get(facts["status"], "ERROR"),
        "source": {"repository": facts.get("repo", "")},
        "target": {name: value for name, value in target.items() if value},
        "summary": keep_start(str(facts.get("text") or facts.get("reason") or ""), _SUMMARY),
    }


async def _post(context: ConversationContext, url: str, token: str, body: dict[str, Any]) -> tuple[str, bool]:
    """Post the body; return what went wrong, or an empty string, and whether another attempt may help."""
    variable = context.settings.completion_secret_env
    secret = os.environ.get(variable, "").strip()
    if not secret:
        return f"not sent: {variable} is not set, and nothing is sent unsigned", False
    parts = urlsplit(url)
    # The client serialises the body with the same function, so the signature fits what is sent.
    headers = {
        "X-Webhook-Signature": sign(secret, json.dumps(body).encode()),
        "X-Webhook-ID": token,
        "X-Webhook-Event": "statusChange",
    }
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    try:
        async with HttpClient(f"{parts.scheme}://{parts.netloc}", {}, _POLICY) as http:
            answer = await http.request("POST", path, body=body, headers=headers, repeatable=True)
    except HttpError as error:
        return str(error), True
    if 200 <= answer.status < 300:
        return "", False
    return f"answered with {answer.status}", answer.status >= 500 or answer.status in (408, 425, 429)
