"""A notification: one thing a person should know, bounded and harmless wherever it is shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from segue.domain.plain import plain, plain_lines
from segue.notify.options import Kind
from segue.system.redact import Redactor

_TITLE_CHARS = 120
_TEXT_CHARS = 2000
_LINK_CHARS = 1000


@dataclass(frozen=True, slots=True)
class Notification:
    """A message to a person. Title and text may come from an agent."""

    kind: Kind
    title: str
    text: str
    link: str = ""
    id: str = ""
    """The same for every attempt to send it, so that receivers can drop duplicates; random if empty."""


Notifier = Callable[[Notification], Awaitable[None]]
"""Sends a notification; raises NotifyError, or anything else, when it could not."""


class NotifyError(Exception):
    """A notifier could not send; the message is a sentence for people, without secrets."""


def sanitize(notification: Notification, redactor: Redactor) -> Notification:
    """Remove secrets, control characters and links that do not lead to the web; shorten what is too long."""
    return replace(
        notification,
        title=plain(redactor.text(notification.title), _TITLE_CHARS) or notification.kind,
        text=plain_lines(redactor.text(notification.text), _TEXT_CHARS),
        link=_web_link(redactor.text(notification.link)),
    )


def _web_link(link: str) -> str:
    """Return the link if it is a complete http(s) address: people click on it."""
    if len(link) > _LINK_CHARS or plain(link, _LINK_CHARS) != link or " " in link:
        return ""
    try:
        parts = urlsplit(link)
    except ValueError:
        return ""
    return link if parts.scheme in ("http", "https") and parts.netloc else ""
