"""Posts a notification as JSON that Slack and similar services understand, signed if a key is set."""

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

from segue.notify.notification import Notification, Notifier, NotifyError
from segue.notify.options import WebhookSettings
from segue.system.http.client import HttpClient, HttpError, HttpPolicy

SIGNATURE = "X-Segue-Signature"
DELIVERY = "X-Segue-Delivery"
_PAUSE = 0.5


def build_payload(notification: Notification, delivery: str, at: float) -> dict[str, Any]:
    """Build the body: `text` for chat services, the parts of the notification for other programs."""
    # Chat services read <…> as links and mentions: an agent must not mention the whole channel.
    parts = [f"Segue: {notification.title}", notification.text, notification.link]
    text = html.escape("\n".join(part for part in parts if part), quote=False)
    return {
        "text": text,
        "kind": notification.kind,
        "title": notification.title,
        "message": notification.text,
        "link": notification.link,
        "id": delivery,
        "at": round(at, 3),
    }


def sign(secret: str, body: bytes) -> str:
    """Return the value of the `X-Segue-Signature` header."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def make_notifier(options: WebhookSettings) -> Notifier:
    """Return a notifier with these options."""

    async def send(notification: Notification) -> None:
        delivery = notification.id or uuid.uuid4().hex
        content = build_payload(notification, delivery, time.time())
        headers = {DELIVERY: delivery, **_signature_header(options, content)}
        assert options.url is not None
        policy = HttpPolicy(
            timeout=options.timeout, attempts=options.attempts, pause=_PAUSE, max_bytes=64 * 1024
        )
        deadline = asyncio.get_running_loop().time() + options.timeout
        try:
            # The whole address is the base, so that no error message can quote a part of it.
            async with HttpClient(options.url.reveal(), {}, policy) as http:
                answer = await http.request(
                    "POST", "", body=content, headers=headers, repeatable=True, deadline=deadline
                )
        except HttpError as error:
            raise NotifyError(
                f"the server could not be reached ({str(error).rpartition(': ')[2]})."
            ) from None
        if not 200 <= answer.status < 300:
            raise NotifyError(f"the server answered {answer.status}.")

    return send


def _signature_header(options: WebhookSettings, content: dict[str, Any]) -> dict[str, str]:
    if not options.secret_env:
        return {}
    secret = os.environ.get(options.secret_env, "")
    if not secret:
        raise NotifyError(f"the variable {options.secret_env} with the signing key is not set.")
    return {SIGNATURE: sign(secret, json.dumps(content).encode())}
