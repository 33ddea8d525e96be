"""Services that are away (the API of cloud agents, the judge, Postgres): waited for; then a run parks."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests import loopback
from tests.cli.place import DEADLINE, Place, until
from tests.fakes.cursor_cloud import make_app
from tests.fakes.serving import serve
from tests.store.cluster import Cluster, own_cluster

HOSTED = "https://github.com/me/app"
RUN = ("run", "plan.md", "--flow", "execute")
WRITES = '[[on]]\nwrite = { "made-{task}.txt" = "made by {task}" }\n'


class Service:
    """A service that can go away and come back at the same address, with all it knows."""

    def __init__(self, app: Any) -> None:
        self._app, self._open = app, ExitStack()
        self.url = self._open.enter_context(serve(app))

    def away(self) -> None:
        self._open.close()

    def back(self) -> None:
        self._open.enter_context(serve(self._app, urlsplit(self.url).port or 0))


@contextmanager
def open_service(app: Any) -> Iterator[Service]:
    service = Service(app)
    yield service
    service.away()


@pytest.fixture
def cloud(place: Place) -> Iterator[Service]:
    bare = place.root / "hosted.git"
    subprocess.run(["git", "clone", "-q", "--bare", str(place.repo), str(bare)], check=True, env=place.env)
    place.git("remote", "add", "origin", str(bare))
    with open_service(make_app({}, {HOSTED: bare})) as service:
        place.env["CURSOR_API_KEY"] = "crsr_test"
        place.config(
            f'agent = "cursor-cloud"\n[agents.cursor-cloud]\nbase_url = "{service.url}"\n'
            f'repository = "{HOSTED}"\npoll_interval = 0.2\nretry_pause = 0.01\nstream = false\n'
        )
        yield service


def launches(service: Service) -> list[str]:
    """The ids that were asked for; a repeated request has the same."""
    requests = loopback.get(f"{service.url}/_sim/log").json()["requests"]
    return sorted(
        {
            seen["body"]["agentId"]
            for seen in requests
            if (seen["method"], seen["path"]) == ("POST", "/v1/agents")
        }
    )


def told(place: Place, words: str) -> Callable[[], bool]:
    return lambda: any(words in path.read_text() for path in place.root.glob("out-*"))


def states(place: Place) -> tuple[str, list[str]]:
    shown = place.json("status", "last")
    return shown["state"], [task["state"] for task in shown["tasks"]]


# ---- cloud agents


def test_a_cloud_that_is_away_at_the_launch_is_waited_for(place: Place, cloud: Service) -> None:
    cloud.away()
    process = place.start(*RUN)
    until(told(place, "waiting for Cursor's API until"), "the notice")
    assert told(place, "Connection refused")()
    until(lambda: place.json("status", "last")["waiting"], "the notice is stored")
    assert [wait["service"] for wait in place.json("status", "last")["waiting"]] == ["Cursor's API"]
    cloud.back()
    assert process.wait(DEADLINE) == 0
    assert told(place, "Cursor's API is back after")()
    assert len(launches(cloud)) == 3
    assert place.json("status", "last")["waiting"] == []


def test_a_cloud_that_stays_away_parks_the_run_and_resume_continues(place: Place, cloud: Service) -> None:
    cloud.away()
    done = place.segue(*RUN, code=7, SEGUE_LIMITS__PATIENCE="1")
    assert "Cursor's API is away, and was waited for 1 s" in done.stderr
    assert "segue resume" in done.stderr
    assert states(place) == ("parked", ["parked", "pending", "pending"])
    assert place.json("status", "last")["lost"] is False
    cloud.back()
    place.segue("resume")
    assert states(place) == ("done", ["done"] * 3)
    assert place.json("status", "last")["tasks"][0]["attempts"] == 1
    assert len(launches(cloud)) == 3


def test_ctrl_c_ends_the_wait_at_once(place: Place, cloud: Service) -> None:
    cloud.away()
    process = place.start(*RUN)
    until(told(place, "waiting for Cursor's API"), "the notice")
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE) == 130
    assert states(place)[0] == "stopped"


# ---- judges


# ---- Postgres


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with own_cluster() as cluster:
        yield cluster


@contextmanager
def away(cluster: Cluster) -> Iterator[None]:
    cluster.stop()
    try:
        yield
    finally:
        cluster.start()


def test_a_database_that_is_away_at_the_start_is_waited_for(place: Place, cluster: Cluster) -> None:
    place.script(WRITES)
    with away(cluster):
        process = place.start("run", "plan.md", "--database-url", cluster.url)
        until(told(place, "Waiting for the database until"), "the notice")
    assert process.wait(DEADLINE) == 0
    assert len(place.subjects()) == 3
