"""A notification: one thing a person should know."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

NotificationKind = Literal["reminder", "needs_human", "run_finished", "parked", "stuck", "test"]
"""What people are notified about."""


class Notification(Struct, frozen=True):
    """A message to a person. Title and text may come from an agent; it is made harmless when it is sent."""

    kind: NotificationKind
    title: str
    text: str
