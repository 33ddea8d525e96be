"""Runs the relay: one per state folder, its actions under a supervisor."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from segue.domain.errors import CredentialsError, Locked, UsageError
from segue.features.relay.audit import Audit
from segue.features.relay.options import RelaySettings, TokenFile
from segue.features.relay.service import ActionService
from segue.features.relay.web import make_relay_app
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
    redactor = Redactor(_find_secrets(settings), later=user_secrets)
    audit = Audit(folder / "audit.jsonl", redactor)
    stopped = asyncio.Event()
    with _lock(folder), on_interrupt(stopped.set):
        async with _service(settings, folder, audit, redactor) as service:
            app = make_relay_app(settings, tokens, audit, service)
            async with open_server(app, settings.host, settings.port) as url:
                announce(url)
                await stopped.wait()


def check(settings: RelaySettings, tokens: TokenFile) -> None:
    """Refuse to start a relay that cannot work or is not safe."""
    if tokens.created() is None:
        raise CredentialsError("The relay has no token yet.", hint="Create one with: segue relay token")
    if not settings.actions:
        raise UsageError(
            "No actions are configured.", hint="Add [relay.actions.NAME]: see `docs/guides/relay.md`"
        )
    for name, action in settings.actions.items():
        program = action.argv[0]
        if find(program) is None and find_inside(program) and "/" not in program:
            raise UsageError(
                f"The action {name} cannot run: {describe_missing(program)}.",
                hint=f"Install it elsewhere, or name it by its path: {find_inside(program)}",
            )


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
    async with Processes(folder) as processes:
        service = ActionService(settings, folder, processes, audit, redactor)
        service.recover()
        yield service
    await service.settle()


def _find_secrets(settings: RelaySettings) -> list[str]:
    known = [os.environ, *(action.env for action in settings.actions.values())]
    return [secret for variables in known for secret in secrets_of(variables)]
