"""The recorder between a program and its model: what passes through, what is stored, what is not."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from segue.agents.codex.agent import find_provider, point_at
from segue.agents.local.launch import PlainOutput, make_command, run_program
from segue.agents.local.recording import LaunchRecorder, read_recording
from segue.domain.events import AgentRecorded
from segue.domain.job import Job
from segue.system.http.server import drop_connection, open_server
from segue.system.process.processes import Processes
from segue.system.recording.child import MARK
from segue.system.recording.exchanges import change_body
from tests.agents.items import Items, lend, of, outcome
from tests.agents.stand_in import LIMITS, PROMPT

KEY = "a-key-of-the-vendor-0123456789"
SECRET = "a-secret-of-the-user-0123456789"

PROGRAM = """
import http.client, json, os, sys, urllib.request
def ask(path):
    headers = {"authorization": "Bearer " + os.environ["KEY"], "content-type": "application/json"}
    body = json.dumps({"said": "hello"}).encode()
    return urllib.request.urlopen(urllib.request.Request(os.environ["MODEL"] + path, body, headers))
answer = ask("/v1/messages?beta=true")
first = answer.readline()
ask("/go").read()  # the model says the rest only after this
try:
    print((first + answer.read()).decode())
except (OSError, http.client.HTTPException):
    print("cut")
sys.exit(7)
"""


def piece(text: str) -> bytes:
    event = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
    return f"data: {json.dumps(event)}\n\n".encode()


class Vendor:
    """A model that waits in the middle of its answer, and may break it off."""

    def __init__(self, cut: bool) -> None:
        self.keys: list[str] = []
        self._cut, self._went = cut, asyncio.Event()
        routes = [Route("/v1/messages", self._answer, methods=["POST"])]
        self.app = Starlette(routes=[*routes, Route("/go", self._go, methods=["POST"])])

    async def _answer(self, request: Request) -> Response:
        self.keys.append(request.headers["authorization"])

        async def pieces() -> AsyncIterator[bytes]:
            yield piece(f"Look: {SECRET[:12]}")
            await self._went.wait()
            if self._cut:
                await drop_connection(request.scope, request.receive, reset=False)
                return
            yield piece(f"{SECRET[12:]}!")

        return StreamingResponse(pieces(), headers={"set-cookie": KEY, "content-type": "text/event-stream"})

    async def _go(self, _request: Request) -> Response:
        self._went.set()
        return JSONResponse({})


def run(folder: Path, cut: bool) -> tuple[Items, Vendor]:
    async def collect() -> tuple[Items, Vendor]:
        vendor = Vendor(cut)
        async with open_server(vendor.app) as url, Processes(folder / "run") as processes:
            job = Job("token", PROMPT, folder, limits=LIMITS)
            command = make_command(
                job, [sys.executable, "-c", PROGRAM], (), {"KEY": KEY, "MODEL": MARK}, stdin=""
            )
            recorder = LaunchRecorder("stand-in", "1.0", url)
            items = run_program(lend(processes, SECRET), job, command, PlainOutput(), recorder=recorder)
            return [item async for item in items], vendor

    return asyncio.run(collect())


def test_what_passes_through_is_unchanged_and_what_is_stored_has_no_secret(tmp_path: Path) -> None:
    items, vendor = run(tmp_path, cut=False)
    assert vendor.keys == [f"Bearer {KEY}"]
    assert outcome(items).exit_code == 7, "the program's own"
    assert piece(f"{SECRET[12:]}!").decode() in outcome(items).text + "\n\n"
    [event] = of(items, AgentRecorded)
    assert (event.requests, event.whole) == (2, True)
    recording = read_recording(tmp_path / "run" / event.file)
    asked, went = recording.exchanges
    assert (asked.method, asked.path, asked.request) == (
        "POST",
        "/v1/messages?beta=true",
        {"said": "hello"},
    )
    assert went.path == "/go"
    assert "Look: [redacted]!" in asked.body, "though it came in two pieces"
    stored = repr(recording)
    assert not any(secret in stored for secret in (KEY, SECRET[:12], SECRET[12:]))


def test_an_answer_that_breaks_off_is_passed_on_and_stored_as_such(tmp_path: Path) -> None:
    items, _ = run(tmp_path, cut=True)
    assert outcome(items).text == "cut"
    [event] = of(items, AgentRecorded)
    assert not event.whole
    assert [one.whole for one in read_recording(tmp_path / "run" / event.file).exchanges] == [False, True]


@given(st.text(max_size=40), st.text(max_size=40), st.lists(st.integers(0, 120), max_size=6))
def test_a_secret_is_found_however_a_stream_cuts_it(before: str, after: str, cuts: list[int]) -> None:
    said = f"{before}{SECRET}{after}"
    places = sorted({0, *(cut for cut in cuts if cut < len(said)), len(said)})
    pieces = [said[start:end] for start, end in pairwise(places)]
    body = "".join(piece(text).decode() for text in pieces)
    changed = change_body(body, lambda text: text.replace(SECRET, "[redacted]"))
    events = [json.loads(line[5:]) for line in changed.split("\n") if line.startswith("data:")]
    assert "".join(event["delta"]["text"] for event in events) == said.replace(SECRET, "[redacted]")
    assert len(events) == len(pieces)


@given(st.text())
def test_any_body_can_be_read(body: str) -> None:
    change_body(body, str.upper)


def test_codex_is_pointed_elsewhere_as_its_settings_say() -> None:
    own = ['model_provider="mine"', 'model_providers.mine={base_url="https://x/v1",env_key="K"}']
    provider = find_provider(own)
    assert (provider.name, provider.base_url, provider.env_key) == ("mine", "https://x/v1", "K")
    assert point_at(own, "http://y")[-1] == 'model_providers.mine.base_url="http://y"'
    assert find_provider(point_at(own, "http://y")).base_url == "http://y"
    assert find_provider(["model_provider=mine", "model=gpt-5"]).base_url is None, "it is not said"
    assert find_provider(point_at(["model=gpt-5"], "http://y")).base_url == "http://y"
