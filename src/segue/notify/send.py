"""Sends a notice through every configured notifier, side by side; a notifier that fails is a sentence."""

from __future__ import annotations

import asyncio
import os

from segue.notify.notice import Notice, Notifier, NotTold, made_safe
from segue.notify.options import NotifySettings
from segue.system.redact import Redactor, secrets_of


def configured(options: NotifySettings) -> dict[str, tuple[Notifier, float]]:
    """The notifiers that are switched on, by name, each with the seconds it may take."""
    from segue.notify import desktop, mail, terminal, webhook

    found: dict[str, tuple[Notifier, float]] = {}
    if options.terminal.enabled:
        found["terminal"] = (terminal.tell, 5.0)
    if options.desktop.enabled:
        found["desktop"] = (desktop.teller(options.desktop), options.desktop.timeout)
    if options.webhook.url is not None:
        found["webhook"] = (webhook.teller(options.webhook), options.webhook.timeout)
    if options.email.host:
        found["email"] = (mail.teller(options.email), options.email.timeout)
    return found


async def notify(
    options: NotifySettings, notice: Notice, *, redactor: Redactor | None = None, only: str | None = None
) -> list[str]:
    """Tell people, unless this kind is not wanted; the problems, as sentences. Never raises."""
    if notice.kind not in options.on and notice.kind != "test":
        return []
    try:
        safe = made_safe(notice, redactor or Redactor(secrets_of(os.environ)))
        chosen = {n: found for n, found in configured(options).items() if only in (None, n)}
    except Exception as error:
        return [f"The notice could not be made: {type(error).__name__}."]
    told = [_one(name, tell, timeout, safe) for name, (tell, timeout) in chosen.items()]
    return [problem for problem in await asyncio.gather(*told) if problem]


async def _one(name: str, tell: Notifier, timeout: float, notice: Notice) -> str:
    try:
        # A little more than its own limit, so that a notifier can say itself what took so long.
        async with asyncio.timeout(timeout + 1.0):
            await tell(notice)
    except TimeoutError:
        return f"{name}: it took longer than {timeout:g} s."
    except NotTold as problem:
        return f"{name}: {problem}"
    except Exception as error:
        # Its own words may quote an address or a password.
        return f"{name}: unexpected {type(error).__name__}."
    return ""
