"""Tells people what happened: on the terminal, the desktop, by webhook and by email."""

from segue.notify.notice import KINDS, Kind, Notice
from segue.notify.options import NotifySettings
from segue.notify.send import configured, notify

__all__ = ["KINDS", "Kind", "Notice", "NotifySettings", "configured", "notify"]
