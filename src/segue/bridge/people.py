"""Tells people through the configured notifiers; what cannot be told is a problem to write down, no more."""

from __future__ import annotations

from segue.notify.notification import Notification
from segue.notify.options import Kind
from segue.notify.send import notify
from segue.runtime.wiring import App


async def tell_people(app: App, kind: Kind, title: str, text: str) -> list[str]:
    """Send a notice; gives what went wrong."""
    redact = app.redactor().text
    return await notify(app.loaded.settings.notify, Notification(kind, redact(title), redact(text)))
