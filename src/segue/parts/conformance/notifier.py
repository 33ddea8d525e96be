"""Check that a notifier keeps the promises of `segue.ports.Notifier`; run this on your own notifiers too.

def test_my_notifier(services: Services) -> None:
    check_notifier(lambda: MyNotifier(MyOptions(), services), received=lambda: inbox.read_text())
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Struct

from segue.domain.notification import KINDS, Notification, NotifyError
from segue.parts.conformance.trial import expect, report_broken
from segue.ports import Notifier

_LINK = "https://example.org/runs/1"


def check_notifier(
    make: Callable[[], Notifier],
    received: Callable[[], str] | None = None,
    fails: Callable[[], Notifier] | None = None,
) -> None:
    """Raise AssertionError with every promise that is broken.

    `make` builds a notifier that can send, `received` returns all that arrived so far, if that can be known,
    `fails` builds one that cannot send.
    """
    trial = _NotifierTrial(make, received, fails)
    report_broken("notifier", (_declares, _sends, _sends_little, _fails), lambda promise: promise(trial))


class _NotifierTrial(Struct, frozen=True):
    make: Callable[[], Notifier]
    received: Callable[[], str] | None
    fails: Callable[[], Notifier] | None


async def _declares(trial: _NotifierTrial) -> None:
    """It has a name and a time limit."""
    notifier = trial.make()
    expect(bool(notifier.name), "its name is empty")
    expect(notifier.timeout > 0, f"its time limit is {notifier.timeout} s")


async def _sends(trial: _NotifierTrial) -> None:
    """It sends notifications of every kind, and they have arrived when `send` returns."""
    for number, kind in enumerate(KINDS):
        title, text = f"Title {number} <b>&", f"First line {number}\n<!channel> $(date) `ls` %s {{}}"
        error = await _send(trial.make(), Notification(kind, title, text, _LINK, f"id{number}"))
        expect(error is None, f"{kind}: {error!r}")
        expect(trial.received is None or f"Title {number}" in trial.received(), f"{title!r} is missing")


async def _sends_little(trial: _NotifierTrial) -> None:
    """Text, link and id may be empty."""
    error = await _send(trial.make(), Notification("test", "Without text", ""))
    expect(error is None, repr(error))


async def _fails(trial: _NotifierTrial) -> None:
    """A failure is a NotifyError that says something, within the time limit."""
    if trial.fails is not None:
        error = await _send(trial.fails(), Notification("test", "This cannot be sent", ""))
        expect(isinstance(error, NotifyError), f"nothing was raised, or something else: {error!r}")
        expect(bool(str(error).strip()), "the message is empty")


async def _send(notifier: Notifier, notification: Notification) -> Exception | None:
    try:
        async with asyncio.timeout(notifier.timeout + 1):
            await notifier.send(notification)
    except Exception as error:
        return error
    return None
