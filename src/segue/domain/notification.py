"""A notification: one thing a person should know."""

from __future__ import annotations

from typing import Literal, get_args

from msgspec import Struct

NotificationKind = Literal["reminder", "needs_human", "run_finished", "parked", "stuck", "test"]
KINDS: tuple[NotificationKind, ...] = get_args(NotificationKind)
"""What people are notified about."""


AnswerAction = Literal["accept", "skip", "retry", "answer"]
ANSWERS: tuple[AnswerAction, ...] = ("accept", "skip", "retry")
"""What a person may answer when a task needs them."""
TO_QUESTION: tuple[AnswerAction, ...] = ("answer", "accept", "skip")
"""The same where its agent asks, or says that it cannot."""


class AnswerButton(Struct, frozen=True):
    """One answer that a notification offers: a token for it, and where to send it."""

    action: AnswerAction
    token: str
    """Decides about one task, once. Anyone who has it can answer."""
    url: str
    """Where the token is posted to."""

    @property
    def label(self) -> str:
        """The word on the button."""
        return self.action.capitalize()

    @property
    def needs_words(self) -> bool:
        """Whether a press is not enough: the page behind the link takes the words."""
        return self.action == "answer"

    @property
    def link(self) -> str:
        """A page that asks before it sends the answer: programs that open links decide nothing."""
        return f"{self.url}?token={self.token}"


class Notification(Struct, frozen=True):
    """A message to a person. Title and text may come from an agent; what a notifier gets is harmless."""

    kind: NotificationKind
    title: str
    text: str
    link: str = ""
    id: str = ""
    """The same for every attempt to send it, so that receivers can drop duplicates; random if empty."""
    answers: tuple[AnswerButton, ...] = ()
    """What a person may answer; empty: nothing."""


class NotifyError(Exception):
    """A notifier could not send; the message is a sentence for people, without secrets."""
