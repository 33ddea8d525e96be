"""Spec Kit features on cloud agents: chained branches, verification, faults, kills."""

from __future__ import annotations

import signal
import threading

from tests import loopback
from tests.cli.cloud_place import Cloud
from tests.cli.place import DEADLINE, until
from tests.cli.test_spec import TASKS


def stand_on(cloud: Cloud, branch: str, push: bool = True) -> None:
    """Create a branch of the user's, with a commit of its own."""
    cloud.place.git("switch", "--quiet", "--create", branch)
    (cloud.place.repo / "mine.txt").write_text("mine")
    cloud.place.git("add", "--all")
    cloud.place.git("commit", "--quiet", "-m", "Add mine")
    if push:
        cloud.place.git("push", "--quiet", "origin", branch)


def first_ref(cloud: Cloud) -> object:
    return cloud.launches()[0]["body"]["repos"][0]["startingRef"]


def test_what_is_not_pushed_is_named_and_nothing_is_launched(cloud: Cloud) -> None:
    stand_on(cloud, "feature", push=False)
    (cloud.folder / "research.md").write_text("Decisions")
    done = cloud.place.segue("run", "specs/001-greeting", code=2)
    said = "The agent starts from branch trunk of origin and does not see: commit "
    assert said in done.stderr
    assert "Add mine; specs/001-greeting/research.md." in done.stderr
    assert "--base trunk" in done.stderr
    assert cloud.launches() == []
    done = cloud.place.segue("run", "specs/001-greeting", "--task", "T001", "--base", "origin/trunk")
    assert said in done.stderr, "who names the branch is told, and goes on"
    assert first_ref(cloud) == "trunk"


def test_work_that_was_merged_is_continued_on_the_branch_it_was_merged_into(cloud: Cloud) -> None:
    stand_on(cloud, "feature")
    cloud.place.segue("run", "specs/001-greeting", "--task", "T001")
    done = cloud.place.segue("run", "specs/001-greeting", "--base", "trunk", code=2)
    branch = cloud.state["tasks"]["T001"]["branch"]
    assert f"The work so far is on branch {branch}, which trunk does not contain." in done.stderr
    cloud.place.git("fetch", "--quiet", "origin", branch)
    cloud.place.git("merge", "--quiet", "--no-edit", "FETCH_HEAD")
    (cloud.place.repo / "mine.txt").write_text("more")
    cloud.place.git("commit", "--quiet", "--all", "-m", "More of mine")
    cloud.place.git("push", "--quiet", "origin", "feature")
    cloud.place.segue("run", "specs/001-greeting", "--task", "T002")
    assert cloud.launches()[-1]["body"]["repos"][0]["startingRef"] == "feature"


def test_work_of_local_agents_counts_once_it_is_pushed(cloud: Cloud) -> None:
    judged = ("--agent", "scripted", "--judge", "checks", "--task", "T001")
    cloud.place.more_config('checks = ["true"]\n')
    cloud.place.segue("run", "specs/001-greeting", *judged)
    cloud.place.git("switch", "--quiet", "trunk")
    done = cloud.place.segue("run", "specs/001-greeting", "--task", "T002", code=2)
    assert "Branch segue/001-greeting/T001 does not exist on origin." in done.stderr
    assert cloud.launches() == []
    cloud.place.git("merge", "--quiet", "segue/001-greeting/T001")
    cloud.place.git("push", "--quiet", "origin", "trunk")
    cloud.place.segue("run", "specs/001-greeting", "--task", "T002")
    assert first_ref(cloud) == "trunk"


def test_the_users_work_tree_is_not_touched(cloud: Cloud) -> None:
    (cloud.place.repo / "mine.txt").write_text("half done")
    cloud.place.segue("run", "specs/001-greeting", "--task", "T001")
    changed = cloud.place.git("status", "--porcelain").splitlines()
    assert sorted(line[3:] for line in changed) == [
        "mine.txt",
        "specs/001-greeting/state.json",
        "specs/001-greeting/tasks.md",
    ]
    assert cloud.place.git("worktree", "list").count("\n") == 1


def test_what_goes_wrong_with_a_run_stops_the_loop(cloud: Cloud) -> None:
    fault = "no_branch"
    says = "nothing"
    cloud.script({"launch": 2, "faults": [fault]}, {})
    done = cloud.place.segue("run", "specs/001-greeting", "--fail-fast", code=3)
    assert says in done.stderr
    text = (cloud.folder / "tasks.md").read_text()
    assert "- [x] T001" in text
    assert "- [ ] T002" in text
    assert cloud.state["tasks"]["T002"]["status"] == "failed"
    assert cloud.state["tasks"]["T002"]["error"]
    assert cloud.state["head_branch"] == cloud.state["tasks"]["T001"]["branch"]
    assert len(cloud.launches()) == 2


def test_kill_9_never_launches_twice(cloud: Cloud) -> None:
    moment = 1.3
    cloud.script({"delay": 0.3})
    process = cloud.place.start("run", "specs/001-greeting")
    killer = threading.Timer(moment, process.kill)
    killer.start()
    assert process.wait(DEADLINE) in (0, -signal.SIGKILL)
    killer.cancel()
    cloud.place.segue("run", "specs/001-greeting")
    ids = [launch["body"]["agentId"] for launch in cloud.launches()]
    assert len(set(ids)) == 3
    assert (cloud.folder / "tasks.md").read_text() == TASKS.replace("[ ]", "[x]")


def test_a_running_cloud_agent_is_adopted(cloud: Cloud) -> None:
    cloud.script({"launch": 1, "hold": True}, {})
    process = cloud.place.start("run", "specs/001-greeting", "--task", "T001")
    until(cloud.launches, "the agent is launched")
    process.kill()
    process.wait(DEADLINE)
    loopback.post(f"{cloud.url}/_sim/release", json={}).raise_for_status()
    cloud.place.segue("resume")
    assert len({launch["body"]["agentId"] for launch in cloud.launches()}) == 1
    assert "- [x] T001" in (cloud.folder / "tasks.md").read_text()
