"""A notification: one thing a person should know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

NotificationKind = Literal["reminder", "needs_human", "run_finished", "parked", "test"]
KINDS: tuple[NotificationKind, ...] = get_args(NotificationKind)
"""What people are notified about."""


@dataclass(frozen=True, slots=True)
class Notification:
    """A message to a person. Title and text may come from an agent; what a notifier gets is harmless."""

    kind: NotificationKind
    title: str
    text: str
    link: str = ""
    id: str = ""
    """The same for every attempt to send it, so that receivers can drop duplicates; random if empty."""


class NotifyError(Exception):
    """A notifier could not send; the message is a sentence for people, without secrets."""
