"""Posts a notification as JSON to a service, and says in words why that failed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from segue.domain.notification import NotifyError
from segue.system.http.client import HttpClient, HttpError, HttpPolicy

_PAUSE = 0.5
_ATTEMPTS = 4
_MAX_ANSWER = 64 * 1024


async def post_json(url: str, content: Mapping[str, Any], headers: Mapping[str, str], timeout: float) -> None:
    """Post the content; a failure that may pass is retried. Raises NotifyError, which names no address."""
    policy = HttpPolicy(timeout=timeout, attempts=_ATTEMPTS, pause=_PAUSE, max_bytes=_MAX_ANSWER)
    deadline = asyncio.get_running_loop().time() + timeout
    try:
        # The whole address is the base, so that no error message can quote a part of it.
        async with HttpClient(url, {}, policy) as http:
            answer = await http.request(
                "POST", "", body=dict(content), headers=dict(headers), repeatable=True, deadline=deadline
            )
    except HttpError as error:
        raise NotifyError(f"the server could not be reached ({str(error).rpartition(': ')[2]}).") from None
    if not 200 <= answer.status < 300:
        raise NotifyError(f"the server answered {answer.status}.")
