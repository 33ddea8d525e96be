"""Notifies people: on the terminal, on the desktop, by webhook and by email."""

from segue.notify.notification import KINDS, Kind, Notification
from segue.notify.options import NotifySettings
from segue.notify.send import enabled_notifiers, notify

__all__ = ["KINDS", "Kind", "Notification", "NotifySettings", "enabled_notifiers", "notify"]
