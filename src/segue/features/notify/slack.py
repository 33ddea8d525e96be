"""Posts a notification to Slack."""

from __future__ import annotations

import html
from typing import Any

from segue.domain.notification import Notification, NotifyError
from segue.features.notify.options import SlackSettings
from segue.features.notify.post import post_json
from segue.system.services import Services


def build_message(notification: Notification) -> dict[str, Any]:
    """Build the message: plain text, so that nothing in it is a link or mentions anybody."""
    words = "\n".join(part for part in (f"Segue: {notification.title}", notification.text) if part)
    blocks: list[dict[str, Any]] = [{"type": "section", "text": _plain(words)}]
    if notification.link:
        link = {"type": "mrkdwn", "text": f"<{html.escape(notification.link, quote=False)}>"}
        blocks.append({"type": "context", "elements": [link]})
    return {"text": html.escape(words, quote=False), "blocks": blocks}


class SlackNotifier:
    """Posts notifications to a channel, through the incoming webhook of an app."""

    Options = SlackSettings
    name = "slack"

    def __init__(self, options: SlackSettings, _services: Services) -> None:
        self._options = options
        self.timeout = options.timeout

    async def send(self, notification: Notification) -> None:
        """Post it; a failure that may pass is retried."""
        options = self._options
        if options.url is None:
            raise NotifyError("no address is set.")
        message = build_message(notification)
        await post_json(options.url.reveal(), message, {}, options.timeout)


def _plain(text: str) -> dict[str, Any]:
    return {"type": "plain_text", "text": text, "emoji": False}
