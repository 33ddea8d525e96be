"""`segue run --serve`: the page beside a run, for as long as it works, or until Ctrl-C."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from segue.cli.output import Output, announce_page
from segue.runtime.plan import Prepared


@dataclass(frozen=True, slots=True)
class Beside:
    """Whether a page is wanted beside the run, and whether it stays when the run has ended."""

    serve: bool = False
    stay: bool = False


NO_PAGE = Beside()


@asynccontextmanager
async def page_beside(ready: Prepared, output: Output, wanted: Beside) -> AsyncIterator[None]:
    """Serve the page of the run while the block runs."""
    if not wanted.serve:
        yield
        return
    from segue.system.interrupts import on_interrupt
    from segue.web.app import serve_pages

    async with serve_pages(ready.app, "127.0.0.1", 0) as new_link:
        announce_page(output, new_link(f"/runs/{ready.run.id}"))
        yield
        if wanted.stay:
            output.note("The run has ended; the page stays until Ctrl-C.")
            stopped = asyncio.Event()
            with on_interrupt(stopped.set):
                await stopped.wait()
