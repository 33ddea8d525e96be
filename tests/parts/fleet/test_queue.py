"""The queue wakes who listens to it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from segue.parts.fleet.queue import make_queue
from segue.parts.fleet.register import Register
from segue.parts.fleet.schema import prepare
from tests.cli.place import DEADLINE


def test_a_worker_that_listens_is_woken_without_looking(postgres: str) -> None:
    prepare(postgres)

    async def main(register: Register) -> None:
        woken = asyncio.Event()

        async def hear(**_news: Any) -> None:
            woken.set()

        queue = make_queue(postgres)
        async with queue.open_async(), asyncio.timeout(DEADLINE):
            listening = asyncio.create_task(
                queue.job_manager.listen_for_jobs(on_notification=hear, queues=["mine"])
            )
            while not woken.is_set():
                await asyncio.to_thread(register.notify_queue, "mine")
                with suppress(TimeoutError):
                    await asyncio.wait_for(woken.wait(), 0.1)
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening

    with Register(postgres) as register:
        asyncio.run(main(register))
