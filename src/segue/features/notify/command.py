"""`segue notify`: test the notifications."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from segue.cli.options import CommandSettings, options
from segue.cli.terminal.output import Printer

if TYPE_CHECKING:
    from segue.ports import Notifier
    from segue.system.redact import Redactor


@click.group()
def notify() -> None:
    """Test the notifications.

    \b
    Examples:
      segue notify test
    """


@notify.command("test")
@options("repo", "config", "json", "color")
def test(settings: CommandSettings, output: Printer) -> int:
    """Send a test notification through each configured notifier.

    Exits with 1 if one could not be sent. See `docs/guides/notifications.md`.

    \b
    Examples:
      segue notify test
      SEGUE_NOTIFY__DESKTOP__ENABLED=true segue notify test
    """
    import asyncio

    from segue.domain.errors import UsageError
    from segue.features.notify.observer import make_notifiers

    app = settings.load()
    notifiers = make_notifiers(app)
    if not notifiers:
        raise UsageError(
            "No notifier is configured.",
            hint="Enable one, for example notify.desktop.enabled: see `docs/guides/notifications.md`",
        )
    results = asyncio.run(_send_tests(notifiers, app.redactor()))
    rows = [(r["notifier"], "sent" if r["ok"] else "failed", r["problem"]) for r in results]
    output.listing(results, ["notifier", "notification", "problem"], rows)
    return 0 if all(result["ok"] for result in results) else 1


async def _send_tests(notifiers: dict[str, Notifier], redactor: Redactor) -> list[dict[str, Any]]:
    import asyncio

    from segue.domain.notification import Notification
    from segue.features.notify.send import notify as send

    test = Notification("test", "this is a test", "Segue can reach you here.")
    found = await asyncio.gather(*(send({name: one}, test, redactor) for name, one in notifiers.items()))
    return [
        {
            "notifier": name,
            "ok": not problems,
            "problem": " ".join(p.removeprefix(f"{name}: ") for p in problems),
        }
        for name, problems in zip(notifiers, found, strict=True)
    ]
