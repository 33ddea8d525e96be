"""Messages as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator

from segue.web.live import Message


async def as_stream(messages: AsyncIterator[Message]) -> AsyncIterator[str]:
    """The text of the stream; a page that was cut off comes back after two seconds."""
    yield "retry: 2000\n\n"
    async for message in messages:
        yield as_text(message)


def as_text(message: Message) -> str:
    """One message."""
    head = f"id: {message.id}\n" if message.id else ""
    return f"{head}event: {message.kind}\ndata: {message.data}\n\n"
