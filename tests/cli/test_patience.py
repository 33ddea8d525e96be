"""Services that are away (the API of cloud agents, the judge, Postgres): waited for; then a run parks."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from segue.parts.sim.cloud.app import cloud_app
from segue.parts.sim.cloud.script import CloudScript
from segue.sim.llm.app import llm_app
from segue.sim.llm.script import LlmScript
from segue.sim.script import check_script
from segue.system.http.server import start_server
from tests import loopback
from tests.cli.place import DEADLINE, Place, until
from tests.store.cluster import Cluster, own_cluster

HOSTED = "https://github.com/me/app"
RUN = ("run", "plan.md", "--flow", "execute")
WRITES = '[[on]]\nwrite = { "made-{task}.txt" = "made by {task}" }\n'


class Service:
    """A service that can go away and come back at the same address, with all it knows."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self.url, self._stop = start_server(app)

    def away(self) -> None:
        self._stop()

    def back(self) -> None:
        _, self._stop = start_server(self._app, port=urlsplit(self.url).port or 0)


@contextmanager
def serve(app: Any) -> Iterator[Service]:
    service = Service(app)
    yield service
    service.away()


@pytest.fixture
def cloud(place: Place) -> Iterator[Service]:
    bare = place.root / "hosted.git"
    subprocess.run(["git", "clone", "-q", "--bare", str(place.repo), str(bare)], check=True, env=place.env)
    place.git("remote", "add", "origin", str(bare))
    with serve(cloud_app(CloudScript(), {HOSTED: bare})) as service:
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


@pytest.mark.thorough
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


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_an_agent_at_work_is_found_again_after_its_cloud_was_away(place: Place, cloud: Service) -> None:
    loopback.post(
        f"{cloud.url}/_sim/script", json={"on": [{"launch": 1, "hold": True}, {}]}
    ).raise_for_status()
    process = place.start(*RUN, SEGUE_LIMITS__PATIENCE="1")
    until(lambda: launches(cloud), "the agent is launched")
    until(told(place, "agent started"), "the agent is watched")
    down = [{"fault": "bad_gateway", "on": "GET /v1/agents/*/runs/*", "times": 0}]
    loopback.post(f"{cloud.url}/_sim/faults", json=down).raise_for_status()
    assert process.wait(DEADLINE) == 7
    loopback.post(f"{cloud.url}/_sim/script", json={"on": [{}]}).raise_for_status()
    loopback.post(f"{cloud.url}/_sim/release", json={}).raise_for_status()
    place.segue("resume")
    assert states(place) == ("done", ["done"] * 3)
    assert len(launches(cloud)) == 3


def test_ctrl_c_ends_the_wait_at_once(place: Place, cloud: Service) -> None:
    cloud.away()
    process = place.start(*RUN)
    until(told(place, "waiting for Cursor's API"), "the notice")
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE) == 130
    assert states(place)[0] == "stopped"


@pytest.mark.thorough
def test_a_service_that_does_not_exist_is_not_waited_for(place: Place, cloud: Service) -> None:
    address = 'base_url = "https://no-such-host.invalid"\n'
    config = (place.root / "segue.toml").read_text()
    (place.root / "segue.toml").write_text(config.replace(f'base_url = "{cloud.url}"\n', address))
    done = place.segue(*RUN, code=3)
    assert "was not found; check base_url" in done.stderr


# ---- judges


@pytest.mark.thorough
def test_a_judge_that_is_away_is_waited_for_and_then_the_run_parks(place: Place) -> None:
    place.script(WRITES)
    with serve(llm_app(check_script([{"judge": {"default": True}}], LlmScript))) as judge:
        place.more_config(f'judged_by = "llm"\njudge = {{ base_url = "{judge.url}/v1" }}\n')
        place.env["OPENAI_API_KEY"] = "sk-test"
        judge.away()
        done = place.segue("run", "plan.md", code=7, SEGUE_LIMITS__PATIENCE="1")
        assert "The judge is away, and was waited for 1 s" in done.stderr
        assert states(place) == ("parked", ["parked", "pending", "pending"])
        process = place.start("resume")
        until(told(place, "waiting for the judge until"), "the notice")
        judge.back()
        assert process.wait(DEADLINE) == 0
        assert [task["attempts"] for task in place.json("status", "last")["tasks"]] == [1, 1, 1]


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


@pytest.mark.thorough
def test_a_database_that_is_away_at_the_start_is_waited_for(place: Place, cluster: Cluster) -> None:
    place.script(WRITES)
    with away(cluster):
        process = place.start("run", "plan.md", "--database-url", cluster.url)
        until(told(place, "Waiting for the database until"), "the notice")
    assert process.wait(DEADLINE) == 0
    assert len(place.subjects()) == 3


def test_a_database_that_stays_away_at_the_start_is_exit_code_7(place: Place, cluster: Cluster) -> None:
    place.script(WRITES)
    with away(cluster):
        asked = ("--database-url", cluster.url)
        done = place.segue("run", "plan.md", *asked, code=7, SEGUE_LIMITS__PATIENCE="1")
        assert "cannot be reached" in done.stderr
        assert "cannot be reached" in place.segue("status", *asked, code=1).stderr, "readers do not wait"


@pytest.mark.thorough
def test_ctrl_c_ends_the_wait_for_a_database(place: Place, cluster: Cluster) -> None:
    place.script(WRITES)
    with away(cluster):
        process = place.start("run", "plan.md", "--database-url", cluster.url)
        until(told(place, "Waiting for the database until"), "the notice")
        process.send_signal(signal.SIGINT)
        assert process.wait(DEADLINE) == 130


@pytest.mark.thorough
def test_a_database_that_does_not_exist_is_not_waited_for(place: Place, cluster: Cluster) -> None:
    place.script(WRITES)
    elsewhere = urlsplit(cluster.url)._replace(path="/no_such_database").geturl()
    done = place.segue("run", "plan.md", "--database-url", elsewhere, code=1)
    assert "does not exist" in done.stderr
    nobody = urlsplit(cluster.url)
    nobody = nobody._replace(netloc=f"nobody:wrong@{nobody.netloc.rpartition('@')[2]}")
    done = place.segue("run", "plan.md", "--database-url", nobody.geturl(), code=4)
    assert "nobody" in done.stderr


@pytest.mark.thorough
def test_segue_stop_ends_the_wait_for_a_cloud(place: Place, cloud: Service) -> None:
    cloud.away()
    process = place.start(*RUN)
    until(told(place, "waiting for Cursor's API"), "the notice")
    place.segue("stop")
    assert process.wait(DEADLINE) == 130
    assert states(place)[0] == "stopped"
