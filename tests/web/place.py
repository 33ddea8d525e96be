"""The page in a process of its own, and a browser-like client that was let in by the link."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import msgspec

from segue.domain.events import Event
from segue.domain.results import Output, StepFacts, StepResult
from segue.domain.run import RunKind, RunSpec, RunState
from segue.store import connect
from tests import loopback
from tests.cli.place import DEADLINE, Place, until
from tests.warm import start_segue

T = TypeVar("T")


class LikeBrowser(httpx2.HTTPTransport):
    """Finds names below localhost on this machine, as browsers do, whatever the resolver says."""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        if not request.url.host.endswith(".localhost"):
            return super().handle_request(request)
        url = request.url.copy_with(host="127.0.0.1")
        there = httpx2.Request(
            request.method, url, headers=request.headers, stream=request.stream, extensions=request.extensions
        )
        return super().handle_request(there)


def browse(**options: Any) -> httpx2.Client:
    """Return a client that finds the page by its name."""
    return loopback.client(**{"transport": LikeBrowser(verify=False), "timeout": DEADLINE, **options})


def fetch(url: str, **headers: str) -> httpx2.Response:
    """Fetch a page as a stranger does."""
    with browse() as client:
        return client.get(url, headers=headers)


@dataclass
class Served:
    """`segue serve`, listening."""

    process: subprocess.Popen[str]
    link: str
    log: Path
    client: httpx2.Client = field(default_factory=browse)

    @property
    def url(self) -> str:
        return self.link.partition("/enter")[0]

    def enter(self) -> httpx2.Response:
        """Use the link, as a browser does."""
        return self.client.get(self.link)

    def get(self, path: str, **headers: str) -> httpx2.Response:
        return self.client.get(self.url + path, headers=headers)

    def data(self, path: str) -> Any:
        """What the twin of a page says."""
        page, _, query = path.removesuffix(".json").partition("?")
        answer = self.get(f"{page.removesuffix('.json')}.json?{query}")
        assert answer.status_code == 200, answer.text
        return answer.json()["data"]

    def post(self, path: str, **fields: str) -> httpx2.Response:
        """Do something, as the script of the page does."""
        headers = {"origin": self.url, "accept": "application/json"}
        return self.client.post(self.url + path, data=fields, headers=headers)

    def stop(self) -> int:
        self.client.close()
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(DEADLINE)


def _find_link(log: Path) -> str:
    return next(line for line in log.read_text().splitlines() if "listening" in line)


@contextmanager
def serving(place: Place, *words: str, entered: bool = True) -> Iterator[Served]:
    """Serve the page for a place."""
    log = place.root / "serve.out"
    with log.open("w") as out:
        process = start_segue(["serve", "--port", "0", "--json", *words], place.repo, place.env, out)
    until(lambda: "listening" in log.read_text() or process.poll() is not None, "the page")
    assert process.poll() is None, log.read_text()
    served = Served(process, json.loads(_find_link(log))["link"], log)
    try:
        if entered:
            assert served.enter().status_code == 200
        yield served
    finally:
        served.stop()


@dataclass(frozen=True)
class Made:
    """A run that was written straight into the store, as a flow would write it."""

    id: str


SPEC = RunSpec(
    "planfile",
    "plan.md",
    "/nowhere",
    "scripted",
    "execute",
    titles={"1": "First", "2": "Second"},
    kind=RunKind.PLAN,
)


def _output(data: dict[str, Any]) -> Output:
    """Return an output with these fields, whatever they are."""
    kind = msgspec.defstruct("AnyOutput", list(data), bases=(Output,), frozen=True)
    made = kind(**data)
    assert isinstance(made, Output)
    return made


def make_run(
    database: Path | str,
    events: Sequence[Event] = (),
    spec: RunSpec = SPEC,
    state: RunState = RunState.DONE,
    output: dict[str, Any] | None = None,
    ok: bool = True,
) -> Made:
    """Add a run with one step of task 1 that has these events and this output."""

    async def write() -> str:
        with connect(str(database)) as store:
            run = store.create(f"key of {spec.source}", spec)
            journal = await store.open(run.id)

            async def work(_token: str) -> StepResult[Output]:
                for event in events:
                    await journal.emit(event, "task/1/execute/1")
                return StepResult(ok, _output(output or {}))

            facts = StepFacts("1", "execute", agent=spec.agent)
            await journal.step("task/1/execute/1", Output, work, facts=facts)
            await journal.set_state(state)
            await store.close(journal)
        return run.id

    if isinstance(database, Path):
        database.parent.mkdir(parents=True, exist_ok=True)
    return Made(_finish(write()))


def add_events(database: Path, run_id: str, events: Sequence[Event]) -> None:
    """Let more happen in a run."""

    async def write() -> None:
        with connect(str(database)) as store:
            journal = await store.open(run_id)
            for event in events:
                await journal.emit(event)
            await store.close(journal)

    _finish(write())


def _finish(work: Coroutine[Any, Any, T]) -> T:
    """Do it in another thread: in this one, what drives a browser may have its event loop."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, work).result()
