"""Asks an installed program a short question, such as its version, from code that cannot wait."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from segue.domain.errors import ToolMissing
from segue.system.process.capture import Captured, capture

_KEPT_BYTES = 64 * 1024


def probe(
    argv: Sequence[str], timeout: float, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Captured | None:
    """What the program answered; None when it could not be started or did not end in time."""
    # In a thread with a loop of its own, because the caller's thread may already run one.
    with ThreadPoolExecutor(1) as thread:
        question = capture(argv, cwd or Path.cwd(), env, timeout, limit=_KEPT_BYTES)
        try:
            return thread.submit(asyncio.run, question).result()
        except (OSError, ValueError, ToolMissing):
            return None
