"""Serve a run's events over HTTP, with everything that may go wrong with a stream."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from segue.sim.cloud.answers import ERROR_KINDS, CloudRefusal
from segue.sim.cloud.feed import make_event
from segue.sim.cloud.objects import CloudRunRecord
from segue.sim.cloud.script import CloudFault
from segue.sim.cloud.state import Cloud
from segue.system.http.server import drop_connection


def stream_run(request: Request, cloud: Cloud, run: CloudRunRecord) -> Response:
    """Stream the run's events after the reader's last one."""
    if run.feed.is_expired(cloud.script.retention):
        raise CloudRefusal("stream_expired")
    start = run.feed.find_position(request.headers.get("last-event-id"))
    headers = {
        "content-type": "text/event-stream",
        "cache-control": "no-cache",
        "x-cursor-stream-retention-seconds": str(int(cloud.script.retention)),
    }
    fault: CloudFault | None = request.scope["segue.fault"]
    events = _follow(cloud, run, start)
    return StreamingResponse(_spoil_stream(request, fault, run, events) if fault else events, headers=headers)


async def _follow(cloud: Cloud, run: CloudRunRecord, start: int) -> AsyncIterator[bytes]:
    async for event in run.feed.follow(start, cloud.script.heartbeat):
        yield event.encode()


async def _spoil_stream(
    request: Request, fault: CloudFault, run: CloudRunRecord, events: AsyncIterator[bytes]
) -> AsyncIterator[bytes]:
    if fault.fault == "sse_silent":
        yield run.feed.make_status_event().encode()
        while (await request.receive())["type"] != "http.disconnect":
            pass
    elif fault.fault == "sse_error":
        code = fault.code or "stream_unavailable"
        text = fault.message or (ERROR_KINDS[code].message if code in ERROR_KINDS else code)
        yield run.feed.make_status_event().encode()
        yield make_event("error", {"code": code, "message": text}).encode()
    else:
        async for data in _cut(request, fault, events):
            yield data


async def _cut(request: Request, fault: CloudFault, events: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield some whole events and half of one, then close the connection."""
    sent = 0
    async for data in events:
        if fault.fault != "sse_cut" or sent < fault.events:
            yield data
            sent += 1
            continue
        yield data[: len(data) * 2 // 3]
        await drop_connection(request.scope, request.receive, reset=False)
        return
