"""The gate that every request passes: the log, faults, keys and rate limits."""

from __future__ import annotations

import asyncio
import base64
import binascii
import re
import uuid

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from segue.sim.cloud.answers import ERROR_KINDS, CloudRefusal
from segue.sim.cloud.script import SLOW_LISTS, STREAM_FAULTS, CloudFault
from segue.sim.cloud.state import Cloud
from segue.sim.services import LoggedRequest, refuse_web_page
from segue.system.http.guard import replay
from segue.system.http.server import drop_connection

_HTML = "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"


class CloudGate:
    """Middleware around the whole API; the simulator's own controls pass it without a key."""

    def __init__(self, app: ASGIApp, cloud: Cloud) -> None:
        self._app = app
        self._cloud = cloud

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        scope["segue.fault"] = None
        if refusal := refuse_web_page(request):
            await refusal(scope, receive, send)
        elif request.url.path.startswith("/_sim/"):
            await self._app(scope, receive, send)
        else:
            await self._api(request, receive, send)

    async def _api(self, request: Request, receive: Receive, send: Send) -> None:
        body = await request.body()
        logged = self._cloud.log.add(request, body)
        fault = self._cloud.faults.pick(request.method, request.url.path)
        headers = {"x-request-id": str(uuid.uuid4())}
        again, record = replay(body, receive), _Recorder(send, logged, headers)
        if fault is not None:
            logged.fault = fault.fault
            request.scope["segue.fault"] = fault
            await asyncio.sleep(fault.delay)
            if await _spoil(fault, request, again, record):
                return
        try:
            headers |= self._admit(request)
        except CloudRefusal as refusal:
            await refusal.response()(request.scope, again, record)
            return
        if fault is not None and fault.fault == "reset_after":
            await self._app(request.scope, again, _discard)
            await drop_connection(request.scope, receive, reset=True)
            return
        await self._app(request.scope, again, record)

    def _admit(self, request: Request) -> dict[str, str]:
        """Check the key, count the request, and return the headers about rate limits."""
        key = _read_key(request.headers.get("authorization", ""))
        script = self._cloud.script
        if not key:
            raise CloudRefusal("unauthorized")
        if script.keys and key not in script.keys:
            raise CloudRefusal("api_key_not_found")
        headers = self._cloud.limiter.count(key, "all", [(script.rate_limit, 60.0)])
        for pattern, windows in SLOW_LISTS.items():
            if script.slow_lists and re.fullmatch(pattern, request.url.path):
                headers = self._cloud.limiter.count(key, pattern, windows)
        return headers


class _Recorder:
    """Adds headers to the answer, and its status to the log."""

    def __init__(self, send: Send, logged: LoggedRequest, headers: dict[str, str]) -> None:
        self._send = send
        self._logged = logged
        self._build_headers = headers

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._logged.status = message["status"]
            answered = MutableHeaders(scope=message)
            for name, value in self._build_headers.items():
                answered.setdefault(name, value)
        await self._send(message)


async def _spoil(fault: CloudFault, request: Request, receive: Receive, send: Send) -> bool:
    """Answer instead of the API; False if the fault lets the request pass."""
    if fault.fault in ("slow", "reset_after", *STREAM_FAULTS):
        return False
    if fault.fault == "reset":
        await drop_connection(request.scope, receive, reset=True)
        return True
    await _answer(fault)(request.scope, receive, send)
    return True


def _answer(fault: CloudFault) -> Response:
    if fault.fault == "bad_gateway":
        return HTMLResponse(_HTML, fault.status or 502)
    if fault.fault == "not_json":
        return Response(b'{"items": [{"id": "bc-', fault.status or 200, media_type="application/json")
    headers = {"Retry-After": fault.retry_after} if fault.retry_after is not None else {}
    refusal = CloudRefusal(
        fault.code or fault.fault,
        fault.message or ERROR_KINDS[fault.fault].message,
        status=fault.status or ERROR_KINDS[fault.fault].status,
        shape=fault.shape or ERROR_KINDS[fault.fault].shape,
        headers=headers,
    )
    return refusal.response()


async def _discard(_message: Message) -> None:
    """Drop an answer that shall never arrive."""


def _read_key(header: str) -> str:
    """Return the key of either scheme, or nothing."""
    scheme, _, value = header.partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() == "basic":
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[0]
        except (binascii.Error, UnicodeDecodeError):
            return ""
    return ""
