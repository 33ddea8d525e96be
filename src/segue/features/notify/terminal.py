"""Notifies on the terminal: the bell, and one line on stderr."""

from __future__ import annotations

import sys

from segue.domain.notification import Notification
from segue.domain.text import plain
from segue.features.notify.options import TerminalSettings
from segue.system.services import Services

_BELL = "\a"


class TerminalNotifier:
    """Writes a line to stderr."""

    Options = TerminalSettings
    name = "terminal"
    timeout = 5.0

    def __init__(self, _options: TerminalSettings, _services: Services) -> None:
        pass

    async def send(self, notification: Notification) -> None:
        """Write the notification as one line; ring the bell if stderr is a terminal."""
        parts = [notification.title, plain(notification.text, 300), notification.link]
        bell = _BELL if sys.stderr.isatty() else ""
        sys.stderr.write(f"{bell}segue: {' · '.join(part for part in parts if part)}\n")
        sys.stderr.flush()
