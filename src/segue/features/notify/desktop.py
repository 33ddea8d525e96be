"""Shows a desktop notification with the program each system has; text is passed as data only."""

from __future__ import annotations

import base64
import html
import sys
from collections.abc import Callable
from pathlib import Path

from segue.domain.errors import ToolMissing
from segue.domain.notification import Notification, NotifyError
from segue.features.notify.options import DesktopSettings
from segue.system.process.capture import capture, child_environment
from segue.system.services import Services

SESSION_VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS")
"""The variables a program needs to find the user's desktop."""

_APPLE_SCRIPT = (
    "on run argv",
    "display notification (item 2 of argv) with title (item 1 of argv)",
    "end run",
)
_TOAST = """
$ErrorActionPreference = 'Stop'
$manager = [Windows.UI.Notifications.ToastNotificationManager,
  Windows.UI.Notifications, ContentType = WindowsRuntime]
$xml = $manager::GetTemplateContent([Windows.UI.Notifications.ToastTemplateType]::ToastText02)
$texts = $xml.GetElementsByTagName('text')
[void]$texts.Item(0).AppendChild($xml.CreateTextNode($env:SEGUE_NOTICE_TITLE))
[void]$texts.Item(1).AppendChild($xml.CreateTextNode($env:SEGUE_NOTICE_TEXT))
$toast = [Windows.UI.Notifications.ToastNotification]::new($xml)
$manager::CreateToastNotifier('Segue').Show($toast)
"""

Command = tuple[list[str], dict[str, str]]
"""A command and the variables it needs."""


def _freedesktop(title: str, text: str) -> Command:
    """`notify-send`; its body may be read as markup, so it is escaped."""
    return ["notify-send", "--app-name=Segue", "--", title, html.escape(text, quote=False)], {}


def _apple(title: str, text: str) -> Command:
    """`osascript` with a fixed script; title and text are its arguments."""
    script = [word for line in _APPLE_SCRIPT for word in ("-e", line)]
    return ["osascript", *script, title, text], {}


def _windows(title: str, text: str) -> Command:
    """PowerShell with a fixed script; title and text are environment variables."""
    encoded = base64.b64encode(_TOAST.encode("utf-16-le")).decode()
    argv = ["powershell", "-NoProfile", "-NonInteractive", "-EncodedCommand", encoded]
    return argv, {"SEGUE_NOTICE_TITLE": title, "SEGUE_NOTICE_TEXT": text}


_COMMANDS: dict[str, Callable[[str, str], Command]] = {"darwin": _apple, "win32": _windows}


def build_command(notification: Notification, platform: str = sys.platform) -> Command:
    """Build the command for this system. The title starts with a word of ours, so it is never an option."""
    text = "\n".join(part for part in (notification.text, notification.link) if part)
    return _COMMANDS.get(platform, _freedesktop)(f"Segue: {notification.title}", text)


class DesktopNotifier:
    """Shows a desktop notification."""

    Options = DesktopSettings
    name = "desktop"
    timeout = 10.0

    def __init__(self, _options: DesktopSettings, _services: Services) -> None:
        """Needs no settings."""

    async def send(self, notification: Notification) -> None:
        """Run the program of this system."""
        argv, variables = build_command(notification)
        env = child_environment(SESSION_VARIABLES, variables)
        try:
            done = await capture(argv, Path.home(), env, self.timeout, limit=4096)
        except ToolMissing as error:
            raise NotifyError(f"{error.message}. {error.hint}") from None
        except TimeoutError as error:
            raise NotifyError(f"{error}.") from None
        if done.exit_code:
            raise NotifyError(
                f"{argv[0]} failed with exit code {done.exit_code}; is there a desktop session?"
            )
