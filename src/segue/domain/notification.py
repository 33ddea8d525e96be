"""A notification: one thing a person should know."""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

NotificationKind = Literal["reminder", "needs_human", "run_finished", "parked", "stuck", "test"]
KINDS: tuple[NotificationKind, ...] = get_args(NotificationKind)
"""What people are notified about."""


class Notification(Struct, frozen=True):
    """A message to a person. Title and text may come from an agent; what a notifier gets is harmless."""

    kind: NotificationKind
    title: str
    text: str
    link: str = ""
    id: str = ""
    """The same for every attempt to send it, so that receivers can drop duplicates; random if empty."""


class NotifyError(Exception):
    """A notifier could not send; the message is a sentence for people, without secrets."""
