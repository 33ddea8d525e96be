"""Opens the relay: one per state folder, its actions under a supervisor, its questions to the user."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from segue.domain.errors import CredentialsError, Locked, UsageError
from segue.relay.audit import Audit
from segue.relay.confirm import Ask, Desktop, Terminal, has_desktop, has_terminal
from segue.relay.desk import Desk
from segue.relay.options import RelaySettings
from segue.relay.questions import Page, Questions
from segue.relay.tokens import TokenFile
from segue.relay.web import relay_app
from segue.system.files import private_folder
from segue.system.http.server import open_server
from segue.system.interrupts import on_interrupt
from segue.system.lock import RepoLock
from segue.system.process.processes import Processes
from segue.system.redact import Redactor, secrets_of


async def serve(settings: RelaySettings, folder: Path, announce: Callable[[str], None]) -> None:
    """Run the relay until Ctrl-C or SIGTERM; its actions end with it."""
    tokens = TokenFile(private_folder(folder))
    check(settings, tokens)
    tls = _tls(settings)
    redactor = Redactor(_secrets(settings))
    audit = Audit(folder / "audit.jsonl", settings.audit_bytes, settings.audit_files, redactor)
    stopped = asyncio.Event()
    with _only_one(folder), on_interrupt(stopped.set):
        async with _desk(settings, folder, audit, redactor) as desk:
            app = relay_app(settings, tokens, audit, desk)
            async with open_server(app, settings.host, settings.port, tls=tls) as url:
                announce(url)
                await stopped.wait()


def check(settings: RelaySettings, tokens: TokenFile) -> None:
    """Refuse to start what could not work or would not be safe."""
    if tokens.made() is None:
        raise CredentialsError("The relay has no token yet.", hint="Make one with: segue relay token")
    if not settings.actions:
        raise UsageError("No actions are configured.", hint="Add [relay.actions.NAME]: see docs/relay.md")
    asking = {action.confirm for action in settings.actions.values()}
    if "terminal" in asking and not has_terminal():
        raise UsageError(
            "An action wants to be confirmed on the terminal, but the relay has none.",
            hint='Start `segue relay` in a terminal, or use confirm = "desktop".',
        )
    if "desktop" in asking and not has_desktop():
        raise UsageError(
            "An action wants to be confirmed by a dialog, but there is no program that shows one.",
            hint='Install zenity or notify-send, or use confirm = "terminal".',
        )


def _tls(settings: RelaySettings) -> ssl.SSLContext | None:
    if not settings.certfile:
        return None
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        tls.load_cert_chain(settings.certfile, settings.keyfile)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(
            f"The certificate cannot be used: {error}",
            hint=f"Check relay.certfile ({settings.certfile}) and relay.keyfile ({settings.keyfile}).",
        ) from None
    return tls


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Two relays over the same results could run the same call twice."""
    try:
        lock = RepoLock.take(folder, "relay")
    except Locked:
        raise Locked(
            f"Another relay works with {folder}.",
            hint="End it, or give this one a state folder of its own: SEGUE_STATE_DIR=DIR",
        ) from None
    try:
        yield
    finally:
        lock.release()


@asynccontextmanager
async def _desk(
    settings: RelaySettings, folder: Path, audit: Audit, redactor: Redactor
) -> AsyncIterator[Desk]:
    ask: dict[str, Ask] = {
        "terminal": Terminal(settings.confirm_timeout),
        "desktop": Desktop(settings.confirm_timeout),
        "page": Page(Questions(folder), settings.confirm_timeout),
    }
    async with Processes(folder) as processes:
        desk = Desk(settings, folder, processes, audit, redactor, ask)
        desk.recover()
        yield desk
    await desk.settle()


def _secrets(settings: RelaySettings) -> list[str]:
    known = [os.environ, *(action.env for action in settings.actions.values())]
    return [secret for variables in known for secret in secrets_of(variables)]
