"""Sends a notification through several notifiers at once and returns their problems as sentences."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from urllib.parse import urlsplit

from msgspec.structs import replace

from segue.domain.notification import KINDS, Notification, NotificationKind, NotifyError
from segue.domain.text import plain, plain_lines
from segue.ports import Notifier
from segue.system.redact import Redactor

_TITLE_CHARS = 120
_TEXT_CHARS = 2000
_LINK_CHARS = 1000


async def notify(
    notifiers: Mapping[str, Notifier],
    notification: Notification,
    redactor: Redactor,
    on: Collection[NotificationKind] = KINDS,
) -> list[str]:
    """Send the notification if its kind is wanted; return the problems as sentences. Never raises."""
    if notification.kind not in on and notification.kind != "test":
        return []
    try:
        safe = sanitize(notification, redactor)
    except Exception as error:
        return [f"The notification could not be prepared: {type(error).__name__}."]
    sending = [_try_one(name, notifier, safe) for name, notifier in notifiers.items()]
    return [problem for problem in await asyncio.gather(*sending) if problem]


def sanitize(notification: Notification, redactor: Redactor) -> Notification:
    """Remove secrets, control characters and links that do not lead to the web; shorten what is too long."""
    return replace(
        notification,
        title=plain(redactor.text(notification.title), _TITLE_CHARS) or notification.kind,
        text=plain_lines(redactor.text(notification.text), _TEXT_CHARS),
        link=_web_link(redactor.text(notification.link)),
    )


async def _try_one(name: str, notifier: Notifier, notification: Notification) -> str:
    try:
        # A little more than its own limit, so that a notifier can report itself what took so long.
        async with asyncio.timeout(notifier.timeout + 1.0):
            await notifier.send(notification)
    except TimeoutError:
        return f"{name}: it took longer than {notifier.timeout:g} s."
    except NotifyError as problem:
        return f"{name}: {problem}"
    except Exception as error:
        # Its message may quote an address or a password.
        return f"{name}: unexpected {type(error).__name__}."
    return ""


def _web_link(link: str) -> str:
    """Return the link if it is a complete http(s) address: people click on it."""
    if len(link) > _LINK_CHARS or plain(link, _LINK_CHARS) != link or " " in link:
        return ""
    try:
        parts = urlsplit(link)
    except ValueError:
        return ""
    return link if parts.scheme in ("http", "https") and parts.netloc else ""
