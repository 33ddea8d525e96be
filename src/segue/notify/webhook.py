"""Posts a notice as JSON that Slack and its like understand, signed if there is a key."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import html
import json
import os
import time
import uuid
from typing import Any

from segue.notify.notice import Notice, Notifier, NotTold
from segue.notify.options import WebhookSettings
from segue.system.http.client import Http, HttpError, Policy

SIGNATURE = "X-Segue-Signature"
DELIVERY = "X-Segue-Delivery"
_PAUSE = 0.5


def payload(notice: Notice, delivery: str, at: float) -> dict[str, Any]:
    """What is posted: `text` for chat programs, the parts of the notice for everybody else."""
    # Chat programs read <…> as links and mentions: an agent must not call for the whole channel.
    said = [f"Segue: {notice.title}", notice.text, notice.link]
    text = html.escape("\n".join(part for part in said if part), quote=False)
    return {
        "text": text,
        "kind": notice.kind,
        "title": notice.title,
        "message": notice.text,
        "link": notice.link,
        "id": delivery,
        "at": round(at, 3),
    }


def signature(secret: str, body: bytes) -> str:
    """What the header `X-Segue-Signature` holds."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def teller(options: WebhookSettings) -> Notifier:
    """A notifier with these options."""

    async def tell(notice: Notice) -> None:
        delivery = uuid.uuid4().hex
        content = payload(notice, delivery, time.time())
        headers = {DELIVERY: delivery, **_signed(options, content)}
        assert options.url is not None
        policy = Policy(timeout=options.timeout, attempts=options.attempts, pause=_PAUSE, max_bytes=64 * 1024)
        deadline = asyncio.get_running_loop().time() + options.timeout
        try:
            # The whole address is the base, so that no error can quote a part of it.
            async with Http(options.url.get_secret_value(), {}, policy) as http:
                answer = await http.request(
                    "POST", "", body=content, headers=headers, repeatable=True, deadline=deadline
                )
        except HttpError as error:
            raise NotTold(f"the server could not be reached ({str(error).rpartition(': ')[2]}).") from None
        if not 200 <= answer.status < 300:
            raise NotTold(f"the server answered {answer.status}.")

    return tell


def _signed(options: WebhookSettings, content: dict[str, Any]) -> dict[str, str]:
    if not options.secret_env:
        return {}
    secret = os.environ.get(options.secret_env, "")
    if not secret:
        raise NotTold(f"the variable {options.secret_env} that should hold the key is not set.")
    return {SIGNATURE: signature(secret, json.dumps(content).encode())}
