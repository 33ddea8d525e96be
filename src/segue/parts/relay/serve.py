"""Runs the relay: one per state folder, its actions under a supervisor."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from segue.domain.errors import CredentialsError, Locked, UsageError
from segue.parts.relay.audit import Audit
from segue.parts.relay.confirm import Ask, DesktopDialog, TerminalPrompt, has_desktop, has_terminal
from segue.parts.relay.options import RelaySettings, TokenFile
from segue.parts.relay.questions import PagePrompt, Questions
from segue.parts.relay.service import ActionService
from segue.parts.relay.web import make_relay_app
from segue.system.http.server import open_server
from segue.system.lock import RepoLock
from segue.system.process.group import on_interrupt
from segue.system.process.processes import Processes
from segue.system.programs import describe_missing, find, find_inside
from segue.system.redact import Redactor
from segue.system.secrets import make_secret_folder
from segue.system.sensitive import secrets_of, user_secrets


async def serve(settings: RelaySettings, folder: Path, announce: Callable[[str], None]) -> None:
    """Run the relay until Ctrl-C or SIGTERM; its actions stop with it."""
    tokens = TokenFile(make_secret_folder(folder))
    check(settings, tokens)
    tls = _load_tls(settings)
    redactor = Redactor(_find_secrets(settings), later=user_secrets)
    audit = Audit(folder / "audit.jsonl", redactor)
    stopped = asyncio.Event()
    with _lock(folder), on_interrupt(stopped.set):
        async with _service(settings, folder, audit, redactor) as service:
            app = make_relay_app(settings, tokens, audit, service)
            async with open_server(app, settings.host, settings.port, tls=tls) as url:
                announce(url)
                await stopped.wait()


def check(settings: RelaySettings, tokens: TokenFile) -> None:
    """Refuse to start a relay that cannot work or is not safe."""
    if tokens.created() is None:
        raise CredentialsError("The relay has no token yet.", hint="Create one with: segue relay token")
    if not settings.actions:
        raise UsageError(
            "No actions are configured.", hint="Add [relay.actions.NAME]: see `segue help relay`"
        )
    for name, action in settings.actions.items():
        program = action.argv[0]
        if find(program) is None and find_inside(program) and "/" not in program:
            raise UsageError(
                f"The action {name} cannot run: {describe_missing(program)}.",
                hint=f"Install it elsewhere, or name it by its path: {find_inside(program)}",
            )
    asking = {action.confirm for action in settings.actions.values()}
    if "terminal" in asking and not has_terminal():
        raise UsageError(
            "An action must be confirmed on the terminal, but the relay has none.",
            hint='Start `segue relay` in a terminal, or use confirm = "desktop".',
        )
    if "desktop" in asking and not has_desktop():
        raise UsageError(
            "An action must be confirmed in a dialog, but no program that shows dialogs is installed.",
            hint='Install zenity or notify-send, or use confirm = "terminal".',
        )


def _load_tls(settings: RelaySettings) -> ssl.SSLContext | None:
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
def _lock(folder: Path) -> Iterator[None]:
    """Lock the state folder: two relays that share it could run the same call twice."""
    try:
        lock = RepoLock.take(folder, "relay")
    except Locked:
        raise Locked(
            f"Another relay uses {folder}.",
            hint="Stop it, or give this one its own state folder: SEGUE_STATE_DIR=DIR",
        ) from None
    try:
        yield
    finally:
        lock.release()


@asynccontextmanager
async def _service(
    settings: RelaySettings, folder: Path, audit: Audit, redactor: Redactor
) -> AsyncIterator[ActionService]:
    ask: dict[str, Ask] = {
        "terminal": TerminalPrompt(settings.confirm_timeout),
        "desktop": DesktopDialog(settings.confirm_timeout),
        "page": PagePrompt(Questions(folder), settings.confirm_timeout),
    }
    async with Processes(folder) as processes:
        service = ActionService(settings, folder, processes, audit, redactor, ask)
        service.recover()
        yield service
    await service.settle()


def _find_secrets(settings: RelaySettings) -> list[str]:
    known = [os.environ, *(action.env for action in settings.actions.values())]
    return [secret for variables in known for secret in secrets_of(variables)]
