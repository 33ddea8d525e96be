"""What the simulated chats share: what goes wrong, and how a press is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import httpx2
from starlette.responses import PlainTextResponse, Response

from segue.domain.options import Options
from segue.sim.script import Deck

ChatFault = Literal["down", "rate_limited", "gone"]
_FAULTS: dict[str, tuple[int, str]] = {
    "down": (503, "service unavailable"),
    "rate_limited": (429, "rate_limited"),
    "gone": (404, "no_service"),
}
_PRESS_SECONDS = 120.0


class ChatEntry(Options, frozen=True):
    """What goes wrong with a message."""

    fault: ChatFault
    """`down` (503), `rate_limited` (429) or `gone` (404)"""
    times: int = 0
    """this many messages fail; 0: all"""
    retry_after: str = ""
    """the header Retry-After; empty: no such header"""


def find_fault(deck: Deck[ChatEntry]) -> Response | None:
    """Return the answer to a message that fails; None: it does not."""
    entry = deck.pick({})
    if entry is None:
        return None
    status, words = _FAULTS[entry.fault]
    return PlainTextResponse(words, status, {"retry-after": entry.retry_after} if entry.retry_after else {})


async def send_press(method: str, url: str, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """Send what a pressed button sends; return the answer."""
    try:
        async with httpx2.AsyncClient(timeout=_PRESS_SECONDS, trust_env=False) as client:
            answer = await client.request(method, url, headers=dict(headers), content=body)
    except httpx2.HTTPError as error:
        return {"status": 0, "text": type(error).__name__}
    return {"status": answer.status_code, "text": answer.text}
