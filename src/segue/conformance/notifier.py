"""Check that a notifier keeps the promises of `segue.ports.Notifier`; run this on your own notifiers too.

def test_my_notifier(services: Services) -> None:
    check_notifier(lambda: MyNotifier(MyOptions(), services), received=lambda: inbox.read_text())
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from segue.domain.notification import KINDS, Notification, NotifyError
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
    broken = asyncio.run(_broken_promises(make, received, fails))
    if broken:
        listed = "\n".join(f"- {line}" for line in broken)
        raise AssertionError(f"the notifier breaks its promises:\n{listed}")


async def _broken_promises(
    make: Callable[[], Notifier], received: Callable[[], str] | None, fails: Callable[[], Notifier] | None
) -> list[str]:
    broken = _check_facts(make())
    for number, kind in enumerate(KINDS):
        title, text = f"Title {number} <b>&", f"First line {number}\n<!channel> $(date) `ls` %s {{}}"
        problem = await _try_to_send(make(), Notification(kind, title, text, _LINK, f"id{number}"))
        if problem:
            broken.append(f"It sends notifications of kind {kind}: {problem}")
        elif received is not None and f"Title {number}" not in received():
            broken.append(f"What it has sent has arrived when `send` returns: {title!r} is missing")
    problem = await _try_to_send(make(), Notification("test", "Without text", ""))
    if problem:
        broken.append(f"Text, link and id may be empty: {problem}")
    return broken + (await _check_failure(fails()) if fails is not None else [])


def _check_facts(notifier: Notifier) -> list[str]:
    broken = []
    if not notifier.name:
        broken.append("It has a name: it is empty")
    if not notifier.timeout > 0:
        broken.append(f"It has a time limit: {notifier.timeout} s")
    return broken


async def _try_to_send(notifier: Notifier, notification: Notification) -> str:
    try:
        async with asyncio.timeout(notifier.timeout + 1):
            await notifier.send(notification)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


async def _check_failure(notifier: Notifier) -> list[str]:
    """A failure is a NotifyError that says something, within the time limit."""
    try:
        async with asyncio.timeout(notifier.timeout + 1):
            await notifier.send(Notification("test", "This cannot be sent", ""))
    except NotifyError as error:
        return [] if str(error).strip() else ["A failure is explained: the message is empty"]
    except Exception as error:
        return [f"A failure is a NotifyError: it is {type(error).__name__}: {error}"]
    return ["A failure is reported: nothing was raised"]
