"""`segue relay`: run approved actions on this machine for a bridge elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from segue.cli.options import PORT, CommandSettings, options
from segue.cli.terminal.output import Printer

if TYPE_CHECKING:
    from segue.runtime.app import App


@click.group(invoke_without_command=True)
@click.pass_context
def relay(ctx: click.Context) -> None:
    """Run approved actions on this machine for a bridge that has the token.

    The default command is `serve`. See `docs/guides/relay.md`.

    \b
    Examples:
      segue relay token                          create the token, once
      segue relay                                serve the configured actions
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(serve)


@relay.command("serve")
@click.option("--host", help="The address to listen on (default: the configured one).")
@click.option("--port", type=PORT, help="The port; 0 picks a free one.")
@options("config", "json")
def serve(host: str | None, port: int | None, settings: CommandSettings, output: Printer) -> None:
    """Serve the configured actions until Ctrl-C, which also stops running actions.

    \b
    Examples:
      segue relay serve
      segue relay serve --port 9000 --config ~/relay.toml
    """
    import asyncio

    from segue.features.relay.options import RelaySettings
    from segue.features.relay.serve import serve as listen

    app = _load(settings, relay={"host": host, "port": port})
    table = app.loaded.settings.part("relay", RelaySettings)

    def announce(url: str) -> None:
        if output.json:
            output.record({"type": "listening", "url": url, "actions": list(table.actions)})
        else:
            click.echo(f"The relay listens on {url} with {len(table.actions)} actions. Stop with Ctrl-C.")

    asyncio.run(listen(table, _folder(app), announce))


@relay.command("token")
@click.option("--rotate", is_flag=True, help="Create a new token; the old one stops working.")
@options("config", "json")
def token(rotate: bool, settings: CommandSettings, output: Printer) -> None:
    """Create the token that callers need and print it, once: only its hash is stored.

    \b
    Examples:
      segue relay token
      segue relay token --rotate
    """
    import time

    from segue.domain.errors import UsageError
    from segue.features.relay.options import TokenFile

    tokens = TokenFile(_folder(_load(settings)))
    made = tokens.created()
    if made is not None and not rotate:
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(made))
        raise UsageError(
            f"A token was created on {since}. It cannot be shown again.",
            hint="Create a new one and give it to the bridge: segue relay token --rotate",
        )
    made_now = tokens.rotate()
    output.result({"token": made_now, "file": str(tokens.path)}, made_now)
    output.note("Give it to the bridge now; it will not be shown again.")


def _load(settings: CommandSettings, **more: Any) -> App:
    """Load the settings; refuse relay settings from files that a project's agents could change."""
    import os

    from segue.config.files import user_file
    from segue.domain.errors import UsageError

    app = settings.load(**more)
    named = app.config or (Path(os.environ["SEGUE_CONFIG"]) if os.environ.get("SEGUE_CONFIG") else None)
    trusted = {"environment", "command line", str(user_file()), str(named)}
    for path, origin in app.loaded.origins.items():
        if path.split(".")[0] == "relay" and origin not in trusted:
            raise UsageError(
                f"{path} is set in {origin}, a project file that agents can change.",
                hint=f"Move [relay] to {user_file()}, or state that you trust it: --config {origin}",
            )
    return app


def _folder(app: App) -> Path:
    return app.secret_dir / "relay"
