"""Short ways to drive a run in tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from segue.domain.results import Output, StepResult
from segue.domain.run import RunSpec
from segue.store.journal import Journal, Work
from segue.store.store import Store

SPEC = RunSpec("planfile", "plan.md", "/repo", "scripted", "quick")
PATIENCE = 300.0


class Given(Output, frozen=True):
    """What the steps of tests store."""

    text: str = ""
    n: Any = None
    x: Any = None
    d: Any = None
    facts: Any = None


def giving(ok: bool = True, calls: list[str] | None = None, **output: Any) -> Work[Given]:
    """Return work that ends at once with this output, and notes its token."""

    async def work(token: str) -> StepResult[Given]:
        if calls is not None:
            calls.append(token)
        return StepResult(ok, Given(**output))

    return work


@asynccontextmanager
async def driven(store: Store, run_id: str | None = None) -> AsyncIterator[Journal]:
    """The journal of a run, a new one by default."""
    journal = await store.open(run_id or store.create("key", SPEC).id)
    try:
        yield journal
    finally:
        await store.close(journal)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until the condition holds."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.005)
