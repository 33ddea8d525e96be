"""Sends notifications to the addresses of `notify.urls` through Apprise."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from segue.domain.errors import UsageError
from segue.domain.notification import Notification
from segue.domain.text import plain, plain_lines
from segue.features.notify.options import NotifySettings
from segue.system.extras import require
from segue.system.redact import Redactor

if TYPE_CHECKING:
    from segue.runtime.app import App

_TITLE_CHARS = 120
_TEXT_CHARS = 2000
_TIMEOUT = 20.0
"""Seconds for one address."""


class Sender:
    """Sends to all addresses at once. No problem quotes an address: it may be a secret."""

    def __init__(self, settings: NotifySettings, redactor: Redactor) -> None:
        """Raises UsageError for an address that Apprise does not understand, ToolMissing without Apprise."""
        self.on = settings.on
        self._redactor = redactor
        self.services: dict[str, Any] = {}
        """The name of each address for people, and Apprise's object for it."""
        if not settings.urls:
            return
        require("apprise")
        import apprise

        for number, url in enumerate(settings.urls, 1):
            service = apprise.Apprise.instantiate(url.reveal())
            if service is None:
                message = f"notify.urls: Apprise does not understand address {number}."
                raise UsageError(message, hint="See docs/guides/notifications.md for examples")
            self.services[f"{number} ({service.service_name})"] = service

    async def send(self, notification: Notification) -> list[str]:
        """Send the notification if its kind is wanted; return the problems as sentences. Never raises."""
        if notification.kind not in self.on and notification.kind != "test":
            return []
        title, text = self.make_harmless(notification)
        sending = [_try(name, service, title, text) for name, service in self.services.items()]
        return [problem for problem in await asyncio.gather(*sending) if problem]

    def make_harmless(self, notification: Notification) -> tuple[str, str]:
        """Return title and text without secrets and control characters, and not too long."""
        title = plain(self._redactor.text(notification.title), _TITLE_CHARS) or notification.kind
        return f"Segue: {title}", plain_lines(self._redactor.text(notification.text), _TEXT_CHARS)


async def _try(name: str, service: Any, title: str, text: str) -> str:
    try:
        async with asyncio.timeout(_TIMEOUT):
            # Stated as plain text, it is escaped for services that read markup.
            sent = await service.async_notify(body=text or title, title=title, body_format="text")
    except TimeoutError:
        return f"Address {name} took longer than {_TIMEOUT:g} s."
    except Exception as error:  # its message may quote an address or a password
        return f"Address {name} failed with {type(error).__name__}."
    return "" if sent else f"Address {name} did not take the notification."


def make_sender(app: App) -> Sender:
    """Return the sender that `[notify]` describes."""
    return Sender(app.loaded.settings.part("notify", NotifySettings), app.redactor())
