"""Posts a notification as JSON that Slack and similar services understand, signed if a key is set."""

from __future__ import annotations

import hashlib
import hmac
import html
import json
import os
import time
import uuid
from typing import Any

from segue.domain.notification import Notification, NotifyError
from segue.features.notify.options import WebhookSettings
from segue.features.notify.post import post_json
from segue.system.services import Services

SIGNATURE = "X-Segue-Signature"
DELIVERY = "X-Segue-Delivery"


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
    """Return the signature of a body, the value of its header."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


class WebhookNotifier:
    """Posts notifications to an address."""

    Options = WebhookSettings
    name = "webhook"

    def __init__(self, options: WebhookSettings, _services: Services) -> None:
        self._options = options
        self.timeout = options.timeout

    async def send(self, notification: Notification) -> None:
        """Post it; a failure that may pass is retried as the same delivery."""
        options = self._options
        delivery = notification.id or uuid.uuid4().hex
        content = build_payload(notification, delivery, time.time())
        headers = {DELIVERY: delivery, **_signature_header(options, content)}
        if options.url is None:
            raise NotifyError("no address is set.")
        await post_json(options.url.reveal(), content, headers, options.timeout)


def _signature_header(options: WebhookSettings, content: dict[str, Any]) -> dict[str, str]:
    if not options.secret_env:
        return {}
    secret = os.environ.get(options.secret_env, "")
    if not secret:
        raise NotifyError(f"the variable {options.secret_env} with the signing key is not set.")
    return {SIGNATURE: sign(secret, json.dumps(content).encode())}
