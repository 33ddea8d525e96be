"""Short ways to drive a run in tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from segue.domain.run import RunSpec
from segue.ports import Journal, StepResult, Store, Work

SPEC = RunSpec("planfile", "plan.md", "/repo", "scripted", "quick")
PATIENCE = 120.0


def giving(ok: bool = True, calls: list[str] | None = None, **output: object) -> Work:
    """Work that ends at once with this output, and notes its token."""

    async def work(token: str) -> StepResult:
        if calls is not None:
            calls.append(token)
        return StepResult(ok, dict(output))

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
