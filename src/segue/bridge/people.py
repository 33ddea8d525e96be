"""Notifies people; what could not be sent is a problem to record, no more."""

from __future__ import annotations

from segue.domain.notification import Notification, NotificationKind
from segue.notify.send import notify
from segue.runtime.app import App
from segue.runtime.wiring import make_notifiers


async def tell_people(app: App, kind: NotificationKind, title: str, text: str) -> list[str]:
    """Send a notification; return what went wrong."""
    notification = Notification(kind, title, text)
    return await notify(make_notifiers(app), notification, app.redactor(), app.loaded.settings.notify.on)
