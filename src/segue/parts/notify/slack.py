"""Posts a notification to Slack, with a button for each answer, and checks what Slack sends back."""

from __future__ import annotations

import hashlib
import hmac
import html
from typing import Any

from segue.domain.notification import AnswerButton, Notification, NotifyError
from segue.parts.notify.options import SlackSettings
from segue.parts.notify.post import post_json
from segue.system.services import Services

SIGNATURE = "X-Slack-Signature"
TIMESTAMP = "X-Slack-Request-Timestamp"
_STYLES = {"accept": {"style": "primary"}, "skip": {"style": "danger"}}


def build_message(notification: Notification) -> dict[str, Any]:
    """Build the message: plain text, so that nothing in it is a link or mentions anybody."""
    words = "\n".join(part for part in (f"Segue: {notification.title}", notification.text) if part)
    blocks: list[dict[str, Any]] = [{"type": "section", "text": _plain(words)}]
    if notification.link:
        link = {"type": "mrkdwn", "text": f"<{html.escape(notification.link, quote=False)}>"}
        blocks.append({"type": "context", "elements": [link]})
    if notification.answers:
        blocks.append({"type": "actions", "elements": [_button(one) for one in notification.answers]})
    return {"text": html.escape(words, quote=False), "blocks": blocks}


def sign_request(secret: str, timestamp: str, body: bytes) -> str:
    """Return the signature of a request from Slack, the value of its header."""
    signed = b"v0:" + timestamp.encode("utf-8", "surrogatepass") + b":" + body
    return "v0=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


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


def _button(answer: AnswerButton) -> dict[str, Any]:
    return {
        "type": "button",
        "action_id": f"segue-{answer.action}",
        "text": _plain(answer.label),
        **({"url": answer.link} if answer.needs_words else {"value": answer.token}),
        **_STYLES.get(answer.action, {}),
    }
