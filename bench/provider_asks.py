"""Asks models many times and prints how long that took; run by `bench.provider` in a process of its own."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from statistics import median
from typing import Any

CONCURRENCY = 8
MESSAGES = [{"role": "user", "content": "hello"}]
MODELS = {"nothing": "nothing/x", "segue": "composer-cli/default"}


class Nothing:
    """A custom handler of LiteLLM's that does nothing."""

    async def acompletion(self, **asked: Any) -> Any:
        """Answer at once."""
        response = asked["model_response"]
        response.choices[0].message.content = "hi"
        return response


nothing = Nothing()


async def measured(ask: Callable[[], Awaitable[object]], calls: int) -> dict[str, float]:
    """Milliseconds of a call that is alone, and per call when eight are under way at any time."""
    for _ in range(3):
        await ask()
    alone = []
    for _ in range(max(10, calls // 4)):
        before = time.perf_counter()
        await ask()
        alone.append(time.perf_counter() - before)
    left = iter(range(calls))
    before = time.perf_counter()

    async def work() -> None:
        for _ in left:
            await ask()

    await asyncio.gather(*(work() for _ in range(CONCURRENCY)))
    return {"alone": median(alone) * 1000, "eight": (time.perf_counter() - before) / calls * 1000}


async def library(calls: int) -> dict[str, dict[str, float]]:
    """The bare process, the handler that does nothing, and ours, in this process."""
    litellm: Any = importlib.import_module("litellm")
    importlib.import_module("segue.provider")
    litellm.custom_provider_map = [
        *litellm.custom_provider_map,
        {"provider": "nothing", "custom_handler": nothing},
    ]

    async def bare() -> None:
        process = await asyncio.create_subprocess_exec(
            "agent", "-p", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        await process.communicate(b"hello")

    def asks(model: str) -> Callable[[], Awaitable[object]]:
        return lambda: litellm.acompletion(model=model, messages=MESSAGES)

    found = {"bare": await measured(bare, calls)}
    for name, model in MODELS.items():
        found[name] = await measured(asks(model), calls)
    return found


async def proxy(calls: int, url: str) -> dict[str, dict[str, float]]:
    """The handler that does nothing and ours, behind a proxy."""
    import httpx2

    headers = {"authorization": f"Bearer {os.environ['LITELLM_MASTER_KEY']}"}
    found = {}
    async with httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as client:
        for name, model in MODELS.items():
            body = {"model": model, "messages": MESSAGES}

            async def ask(body: dict[str, Any] = body) -> None:
                (await client.post(f"{url}/v1/chat/completions", json=body)).raise_for_status()

            found[name] = await measured(ask, calls)
    return found


if __name__ == "__main__":
    number = int(sys.argv[1])
    print(json.dumps(asyncio.run(proxy(number, sys.argv[2]) if sys.argv[2:] else library(number))))
