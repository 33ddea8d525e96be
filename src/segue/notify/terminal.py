"""Notifies on the terminal: the bell, and one line on stderr."""

from __future__ import annotations

import sys

from segue.domain.plain import plain
from segue.notify.notification import Notification

_BELL = "\a"


async def send(notification: Notification) -> None:
    """Write the notification as one line; ring the bell if stderr is a terminal."""
    parts = [notification.title, plain(notification.text, 300), notification.link]
    bell = _BELL if sys.stderr.isatty() else ""
    sys.stderr.write(f"{bell}segue: {' · '.join(part for part in parts if part)}\n")
    sys.stderr.flush()
