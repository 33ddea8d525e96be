"""A run's events over HTTP, with everything that may go wrong with a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from segue.sim.cloud.answers import KINDS, Refusal
from segue.sim.cloud.feed import frame
from segue.sim.cloud.objects import Run
from segue.sim.cloud.script import Fault
from segue.sim.cloud.state import Cloud
from segue.system.http.server import drop_connection


def stream(request: Request, cloud: Cloud, run: Run) -> Response:
    """The run's stream from the reader's last event on."""
    if run.feed.expired(cloud.script.retention):
        raise Refusal("stream_expired")
    start = run.feed.position(request.headers.get("last-event-id"))
    headers = {
        "content-type": "text/event-stream",
        "cache-control": "no-cache",
        "x-cursor-stream-retention-seconds": str(int(cloud.script.retention)),
    }
    fault: Fault | None = request.scope["segue.fault"]
    whole = _whole(cloud, run, start)
    return StreamingResponse(_spoilt(request, fault, run, whole) if fault else whole, headers=headers)


async def _whole(cloud: Cloud, run: Run, start: int) -> AsyncIterator[bytes]:
    async for event in run.feed.follow(start, cloud.script.heartbeat):
        yield event.encode()


async def _spoilt(
    request: Request, fault: Fault, run: Run, whole: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    if fault.fault == "sse_silent":
        yield run.feed.status_frame().encode()
        while (await request.receive())["type"] != "http.disconnect":
            pass
    elif fault.fault == "sse_error":
        code = fault.code or "stream_unavailable"
        text = fault.message or (KINDS[code].message if code in KINDS else code)
        yield run.feed.status_frame().encode()
        yield frame("error", {"code": code, "message": text}).encode()
    else:
        async for data in _cut(request, fault, whole):
            yield data


async def _cut(request: Request, fault: Fault, whole: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Some whole events, then half of one, then nobody there."""
    sent = 0
    async for data in whole:
        if fault.fault != "sse_cut" or sent < fault.events:
            yield data
            sent += 1
            continue
        yield data[: len(data) * 2 // 3]
        await drop_connection(request.scope, request.receive, reset=False)
        return
