"""Runs a program that may not end when its work has: its reader says how long to wait for the next event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import replace

from segue.agents.local import Ended, ReadLine, run_local
from segue.domain.event import Event
from segue.system.process.processes import Command, Exit, Processes
from segue.system.redact import Redactor

Patience = Callable[[], float | None]
"""Seconds that may pass before the next event; None: as many as the limits allow."""


async def run_patiently(
    processes: Processes,
    redactor: Redactor,
    token: str,
    command: Command,
    read: ReadLine,
    patience: Patience,
    give_up: Callable[[], None] = lambda: None,
) -> AsyncGenerator[Event | Ended, None]:
    """Like `run_local`, but a program that is silent for longer than the reader's patience is ended.

    `give_up` is called when that happens.
    """
    items = run_local(processes, redactor, token, command, read)
    async with aclosing(items):
        while True:
            try:
                async with asyncio.timeout(patience()):
                    item = await anext(items)
            except TimeoutError:
                # The timeout has closed the iterator, which ended the process.
                give_up()
                yield Ended(await _exit(processes, token, command), "", "")
                return
            yield item
            if isinstance(item, Ended):
                return


async def _exit(processes: Processes, token: str, command: Command) -> Exit:
    """How the process that was ended has ended; the token of a launch can be asked for it at any time."""
    found: Exit | None = None
    async for item in processes.run(token, command):
        found = item if isinstance(item, Exit) else None
    assert found is not None, "the last thing a process yields is its exit"
    return replace(found, adopted=False)
