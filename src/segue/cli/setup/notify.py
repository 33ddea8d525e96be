"""`segue notify`: test the notifications."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from segue.cli.options import options
from segue.cli.terminal.output import Output


@click.group()
def notify() -> None:
    """Test the notifications.

    \b
    Examples:
      segue notify test
    """


@notify.command("test")
@options("repo", "config", "json", "color")
def test(repo: Path | None, config_file: Path | None, output: Output, **settings: Any) -> int:
    """Send a test notification through each configured notifier.

    Exits with 1 if one could not be sent. See docs/notifications.md.

    \b
    Examples:
      segue notify test
      SEGUE_NOTIFY__DESKTOP__ENABLED=true segue notify test
    """
    import asyncio

    from segue.domain.errors import UsageError
    from segue.notify.send import enabled_notifiers
    from segue.runtime.wiring import App

    app = App.load(repo, config_file, settings)
    if not enabled_notifiers(app.loaded.settings.notify):
        raise UsageError(
            "No notifier is configured.",
            hint="Enable one, for example notify.desktop.enabled: see docs/notifications.md",
        )
    results = asyncio.run(_send_tests(app))
    if output.json:
        output.data(results)
    else:
        rows = [(r["notifier"], "sent" if r["ok"] else "failed", r["problem"]) for r in results]
        output.table(["notifier", "notice", "problem"], rows)
    return 0 if all(result["ok"] for result in results) else 1


async def _send_tests(app: Any) -> list[dict[str, Any]]:
    import asyncio

    from segue.notify.notification import Notification
    from segue.notify.send import enabled_notifiers
    from segue.notify.send import notify as send

    chosen, redactor = app.loaded.settings.notify, app.redactor()
    notice = Notification("test", "this is a test", "Segue can reach you here.")
    names = list(enabled_notifiers(chosen))
    said = await asyncio.gather(*(send(chosen, notice, redactor=redactor, only=name) for name in names))
    return [
        {
            "notifier": name,
            "ok": not problems,
            "problem": " ".join(p.removeprefix(f"{name}: ") for p in problems),
        }
        for name, problems in zip(names, said, strict=True)
    ]
