"""`segue notify`: test the notifications."""

from __future__ import annotations

import click

from segue.cli.options import CommandSettings, options
from segue.cli.terminal.output import Printer


@click.group()
def notify() -> None:
    """Test the notifications."""


@notify.command("test")
@options("repo", "config", "json", "color")
def test(settings: CommandSettings, output: Printer) -> int:
    """Send a test notification to each address of `notify.urls`.

    Exits with 1 if one could not be sent. See `docs/guides/notifications.md`.

    \b
    Examples:
      segue notify test
    """
    import asyncio

    from segue.domain.errors import UsageError
    from segue.domain.notification import Notification
    from segue.features.notify.send import make_sender

    sender = make_sender(settings.load())
    if not sender.services:
        raise UsageError(
            "No address is set for notifications.", hint="Set notify.urls: see `docs/guides/notifications.md`"
        )
    problems = asyncio.run(sender.send(Notification("test", "this is a test", "Segue can reach you here.")))
    results: list[dict[str, object]] = []
    for name in sender.services:
        problem = next((text for text in problems if text.startswith(f"Address {name} ")), "")
        results.append({"address": name, "ok": not problem, "problem": problem})
    rows = [(r["address"], "sent" if r["ok"] else "failed", r["problem"]) for r in results]
    output.listing(results, ["address", "notification", "problem"], rows)
    return 1 if problems else 0
