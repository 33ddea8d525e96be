"""A plan of two tasks through each cloud agent beside Cursor's, also with a kill at the worst time."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from segue.system.http.server import start_server
from tests.cli.place import DEADLINE, Place, make_template, until
from tests.parts.clouds.place import VENDORS, Vendor
from tests.parts.sim.cloud_desk import git

HOSTED = "https://github.com/me/app"
PLAN = "# Plan\n\n## Task 1\nWrite one.\n\n## Task 2\nWrite two.\n"


class HostedPlace:
    """A place with a plan, a hosted repository and a simulated vendor."""

    def __init__(self, place: Place, vendor: Vendor, url: str, bare: Path) -> None:
        self.place, self.vendor, self.url, self.bare = place, vendor, url, bare
        place.env |= vendor.env
        table = "".join(f'{name} = "{value}"\n' for name, value in vendor.options.items())
        place.config(
            f'agent = "{vendor.name}"\nflow = "execute"\n[agents.{vendor.name}]\n'
            f'base_url = "{url}{vendor.base}"\n'
            f'repository = "{HOSTED}"\npoll_interval = 0.1\nretry_pause = 0.05\nsearch_delay = 0.2\n{table}'
        )

    def asks(self, pattern: str) -> list[dict[str, Any]]:
        method, _, path = pattern.partition(" ")
        seen = httpx2.get(f"{self.url}/_sim/log").json()["requests"]
        return [one for one in seen if (one["method"], one["path"]) == (method, path)]

    def sim(self, what: str, body: Any) -> None:
        httpx2.post(f"{self.url}/_sim/{what}", json=body).raise_for_status()

    def sessions(self) -> object:
        return httpx2.get(f"{self.url}/_sim/state").json()["sessions"]

    def work(self) -> list[set[str]]:
        """The files on each branch."""
        branches = git(self.bare, "for-each-ref", "--format=%(refname)", "refs/heads/").split()
        return [set(git(self.bare, "ls-tree", "-r", "--name-only", name).split()) for name in branches]


@pytest.fixture(params=VENDORS, ids=lambda vendor: vendor.name)
def hosted(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[HostedPlace]:
    vendor = request.param.in_repository("me/app")
    place = Place.make(tmp_path / "place", template=make_template({"plan.md": PLAN}))
    bare = tmp_path / "hosted.git"
    subprocess.run(["git", "clone", "-q", "--bare", place.repo, bare], check=True, env=place.env)
    place.git("remote", "add", "origin", str(bare))
    url, stop = start_server(vendor.sim.build_app(None, {HOSTED: bare}))
    yield HostedPlace(place, vendor, url, bare)
    stop()


@pytest.mark.quick("devin")
def test_two_tasks_are_done_although_segue_is_killed_before_a_launch_is_answered(hosted: HostedPlace) -> None:
    hosted.sim("faults", {"faults": [{"fault": "silent", "on": hosted.vendor.launch}]})
    process = hosted.place.start("run", "plan.md")
    until(lambda: hosted.sessions() == 1, "the session is launched")
    process.kill()
    process.wait(DEADLINE)
    hosted.place.segue("resume")
    assert hosted.sessions() == 2, "one for each task"
    assert len(hosted.asks(hosted.vendor.launch)) == 2
    assert any(event["adopted"] for event in hosted.place.events("agent.started"))
    assert hosted.place.json("status", "last")["state"] == "done"
    both = {"plan.md", "notes/session-1-1.md", "notes/session-2-1.md"}
    assert sorted(map(len, hosted.work())) == [1, 2, 3], "each task has a branch of its own"
    assert both in hosted.work(), "the second starts where the first ended"


@pytest.mark.quick("copilot-cloud")
def test_what_a_cloud_cannot_do_is_said_before_the_start(hosted: HostedPlace) -> None:
    can, name = hosted.vendor.kind.profile.can, hosted.vendor.name
    done = hosted.place.segue("run", "plan.md", "--flow", "plan", code=2)
    assert f"Agent {name} cannot plan" in done.stderr
    if not can.reports_usage:
        done = hosted.place.segue("run", "plan.md", code=2, SEGUE_LIMITS__TOKENS="1000")
        assert f"agent {name} does not report tokens" in done.stderr
    if can.unstoppable:
        done = hosted.place.segue("run", "plan.md", "--task", "1")
        assert f"{name} cannot be stopped from here" in done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize(
    "hosted", [vendor for vendor in VENDORS if vendor.name == "copilot-cloud"], indirect=True
)
def test_what_cannot_be_continued_starts_again_from_its_branch(hosted: HostedPlace) -> None:
    hosted.sim("on", [{"launch": 1}, {"write": {"proof.txt": "yes"}}])
    hosted.place.more_config('checks = [["sh", "-c", "! ls | grep -q ^notes || ls | grep -q ^proof"]]\n')
    hosted.place.segue("run", "plan.md", "--task", "1")
    first, second = (one["body"] for one in hosted.asks(hosted.vendor.launch))
    assert second["base_ref"] == first["head_ref"]
    assert {"plan.md", "notes/session-1-1.md", "proof.txt"} in hosted.work()


@pytest.mark.thorough
@pytest.mark.quick("claude-cloud-403")
@pytest.mark.parametrize("status", [403, 410, 418])
def test_a_refusal_right_after_a_session_was_made_abandons_nothing(hosted: HostedPlace, status: int) -> None:
    on = f"{hosted.vendor.look}/events" if hosted.vendor.name == "claude-cloud" else hosted.vendor.look
    hosted.sim("faults", {"faults": [{"fault": "refuse", "status": status, "on": on, "times": 2}]})
    hosted.place.segue("run", "plan.md", "--task", "1")
    assert hosted.sessions() == 1
