"""Reports the end of a subagent to a URL of the user, signed and in the format of Cursor's own webhooks."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from segue.bridge.context import ConversationContext
from segue.bridge.steps import CompletionOutput
from segue.domain.events import BridgeWebhook
from segue.domain.results import StepResult
from segue.notify.webhook import sign
from segue.ports import StepFacts
from segue.system.http.client import HttpClient, HttpError, HttpPolicy

_STATUS = {"done": "FINISHED"}
_POLICY = HttpPolicy(timeout=20.0, attempts=4)


async def report_completion(context: ConversationContext, key: str, facts: dict[str, Any]) -> None:
    """Post the end of a subagent; a delivery that is sent again keeps its id."""
    url = context.settings.completion_url
    if url is None:
        return

    async def work(token: str) -> StepResult[CompletionOutput]:
        problem = await _post(context, url, token, _make_body(facts))
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
        "summary": str(facts.get("text") or facts.get("reason") or "")[:4000],
    }


async def _post(context: ConversationContext, url: str, token: str, body: dict[str, Any]) -> str:
    """Post the body; return what went wrong, or an empty string."""
    variable = context.settings.completion_secret_env
    secret = os.environ.get(variable, "").strip()
    if not secret:
        return f"not sent: {variable} is not set, and nothing is sent unsigned"
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
        return str(error)
    return "" if 200 <= answer.status < 300 else f"answered with {answer.status}"
