"""Sends a notification through all enabled notifiers at once and returns their problems as sentences."""

from __future__ import annotations

import asyncio
import os

from segue.notify.notification import Notification, Notifier, NotifyError, sanitize
from segue.notify.options import NotifySettings
from segue.system.redact import Redactor, secrets_of


def enabled_notifiers(options: NotifySettings) -> dict[str, tuple[Notifier, float]]:
    """Return the enabled notifiers by name, each with its time limit in seconds."""
    from segue.notify import desktop, mail, terminal, webhook

    found: dict[str, tuple[Notifier, float]] = {}
    if options.terminal.enabled:
        found["terminal"] = (terminal.send, 5.0)
    if options.desktop.enabled:
        found["desktop"] = (desktop.make_notifier(options.desktop), options.desktop.timeout)
    if options.webhook.url is not None:
        found["webhook"] = (webhook.make_notifier(options.webhook), options.webhook.timeout)
    if options.email.host:
        found["email"] = (mail.make_notifier(options.email), options.email.timeout)
    return found


async def notify(
    options: NotifySettings,
    notification: Notification,
    *,
    redactor: Redactor | None = None,
    only: str | None = None,
) -> list[str]:
    """Send the notification if its kind is wanted; return the problems as sentences. Never raises."""
    if notification.kind not in options.on and notification.kind != "test":
        return []
    try:
        safe = sanitize(notification, redactor or Redactor(secrets_of(os.environ)))
        chosen = {n: found for n, found in enabled_notifiers(options).items() if only in (None, n)}
    except Exception as error:
        return [f"The notification could not be prepared: {type(error).__name__}."]
    sending = [_try_one(name, send, timeout, safe) for name, (send, timeout) in chosen.items()]
    return [problem for problem in await asyncio.gather(*sending) if problem]


async def _try_one(name: str, send: Notifier, timeout: float, notification: Notification) -> str:
    try:
        # A little more than its own limit, so that a notifier can report itself what took so long.
        async with asyncio.timeout(timeout + 1.0):
            await send(notification)
    except TimeoutError:
        return f"{name}: it took longer than {timeout:g} s."
    except NotifyError as problem:
        return f"{name}: {problem}"
    except Exception as error:
        # Its message may quote an address or a password.
        return f"{name}: unexpected {type(error).__name__}."
    return ""
