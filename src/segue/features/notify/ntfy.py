"""Publishes a notification on an ntfy server."""

from __future__ import annotations

import os
from typing import Any

from segue.domain.notification import Notification, NotifyError
from segue.features.notify.options import NtfySettings
from segue.features.notify.post import post_json
from segue.system.services import Services

_MESSAGE_BYTES = 3500
"""A longer message would be shown as a file."""
_URGENT = {"needs_human": 4}


def build_message(topic: str, notification: Notification) -> dict[str, Any]:
    """Build the message as ntfy's JSON."""
    text = notification.text.encode()[:_MESSAGE_BYTES].decode("utf-8", "ignore")
    message: dict[str, Any] = {
        "topic": topic,
        "title": f"Segue: {notification.title}",
        "message": text or notification.title,
        "priority": _URGENT.get(notification.kind, 3),
    }
    if notification.link:
        message["click"] = notification.link
    return message


class NtfyNotifier:
    """Publishes notifications to a topic."""

    Options = NtfySettings
    name = "ntfy"

    def __init__(self, options: NtfySettings, _services: Services) -> None:
        self._options = options
        self.timeout = options.timeout

    async def send(self, notification: Notification) -> None:
        """Publish it; a failure that may pass is retried."""
        options = self._options
        if options.topic is None:
            raise NotifyError("no topic is set.")
        token = os.environ.get(options.token_env, "") if options.token_env else ""
        if options.token_env and not token:
            raise NotifyError(f"the variable {options.token_env} with the access token is not set.")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        message = build_message(options.topic.reveal(), notification)
        await post_json(options.url.rstrip("/") + "/", message, headers, options.timeout)
