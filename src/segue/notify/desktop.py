"""Shows a notification of the desktop with the program each system has; text travels as data only."""

from __future__ import annotations

import base64
import html
import sys
from collections.abc import Callable
from pathlib import Path

from segue.domain.errors import ToolMissing
from segue.notify.notice import Notice, Notifier, NotTold
from segue.notify.options import DesktopSettings
from segue.system.process.processes import capture, child_environment

SESSION_VARIABLES = ("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "DBUS_SESSION_BUS_ADDRESS")
"""What a program needs to find the user's desktop."""

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

Made = tuple[list[str], dict[str, str]]
"""A command and the variables it needs."""


def freedesktop(title: str, text: str) -> Made:
    """`notify-send`; its body may be read as markup, so it is escaped."""
    return ["notify-send", "--app-name=Segue", "--", title, html.escape(text, quote=False)], {}


def apple(title: str, text: str) -> Made:
    """`osascript` with a fixed script; title and text are its arguments."""
    script = [word for line in _APPLE_SCRIPT for word in ("-e", line)]
    return ["osascript", *script, title, text], {}


def windows(title: str, text: str) -> Made:
    """PowerShell with a fixed script; title and text are variables of its environment."""
    encoded = base64.b64encode(_TOAST.encode("utf-16-le")).decode()
    argv = ["powershell", "-NoProfile", "-NonInteractive", "-EncodedCommand", encoded]
    return argv, {"SEGUE_NOTICE_TITLE": title, "SEGUE_NOTICE_TEXT": text}


_MAKERS: dict[str, Callable[[str, str], Made]] = {"darwin": apple, "win32": windows}


def command(notice: Notice, platform: str = sys.platform) -> Made:
    """What shows the notice on this system. The title begins with a word of ours, so it is no option."""
    text = "\n".join(part for part in (notice.text, notice.link) if part)
    return _MAKERS.get(platform, freedesktop)(f"Segue: {notice.title}", text)


def teller(options: DesktopSettings) -> Notifier:
    """A notifier with these options."""

    async def tell(notice: Notice) -> None:
        argv, variables = command(notice)
        env = child_environment(SESSION_VARIABLES, variables)
        try:
            done = await capture(argv, Path.home(), env, options.timeout, limit=4096)
        except ToolMissing as error:
            raise NotTold(f"{error.message}. {error.hint}") from None
        except TimeoutError as error:
            raise NotTold(f"{error}.") from None
        if done.exit_code:
            raise NotTold(f"{argv[0]} failed with exit code {done.exit_code}; is there a desktop session?")

    return tell
