"""Spec Kit features on (simulated) cloud agents: chained branches, verification, faults, kills."""

from __future__ import annotations

import signal
import threading

import pytest

from tests import loopback
from tests.cli.cloud_place import Cloud
from tests.cli.place import DEADLINE, until
from tests.cli.test_spec import TASKS


@pytest.mark.thorough
def test_tasks_chain_from_the_default_branch_on(cloud: Cloud) -> None:
    cloud.place.segue("run", "specs/001-greeting")
    refs = [launch["body"]["repos"][0].get("startingRef") for launch in cloud.launches()]
    tasks = cloud.state["tasks"]
    assert refs == ["trunk", tasks["T001"]["branch"], tasks["T002"]["branch"]]
    assert cloud.state["head_branch"] == tasks["T003"]["branch"]
    assert (cloud.folder / "tasks.md").read_text() == TASKS.replace("[ ]", "[x]")
    usage = cloud.place.json("status", "last")["tasks"][0]
    assert usage["tokens"] > 0


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


@pytest.mark.thorough
def test_agents_start_from_the_pushed_branch_of_the_user(cloud: Cloud) -> None:
    stand_on(cloud, "feature")
    done = cloud.place.segue("run", "specs/001-greeting", "--task", "T001")
    assert "cursor-cloud starts from branch feature of origin." in done.stderr
    assert first_ref(cloud) == "feature"
    assert cloud.place.events("run.started")[0]["base"] == "feature"


@pytest.mark.thorough
def test_an_upstream_of_another_name_is_followed(cloud: Cloud) -> None:
    stand_on(cloud, "here", push=False)
    cloud.place.git("push", "--quiet", "--set-upstream", "origin", "here:there")
    cloud.place.segue("run", "plan.md", "--flow", "execute", "--task", "1")
    assert first_ref(cloud) == "there"


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


@pytest.mark.thorough
def test_ticks_that_are_committed_and_not_pushed_do_not_matter(cloud: Cloud) -> None:
    cloud.place.segue("run", "specs/001-greeting", "--task", "T001")
    cloud.place.git("add", "--all")
    cloud.place.git("commit", "--quiet", "-m", "Tick T001")
    cloud.place.segue("run", "specs/001-greeting", "--task", "T002")
    refs = [launch["body"]["repos"][0]["startingRef"] for launch in cloud.launches()]
    assert refs == ["trunk", cloud.state["tasks"]["T001"]["branch"]]


@pytest.mark.thorough
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


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_a_local_run_elsewhere_does_not_move_the_start(cloud: Cloud) -> None:
    cloud.place.segue("run", "plan.md", "--agent", "scripted", "--flow", "execute", "--task", "1")
    cloud.place.git("push", "--quiet", "origin", "trunk")
    cloud.place.git("switch", "--quiet", "--create", "feature", "HEAD~1")
    cloud.place.git("push", "--quiet", "origin", "feature")
    cloud.place.env["SEGUE_COMMITS_MISSING"] = "keep"
    cloud.place.segue("run", "plan.md", "--flow", "execute", "--task", "2")
    assert first_ref(cloud) == "feature"


@pytest.mark.thorough
def test_a_plan_continues_from_the_branch_of_its_last_run(cloud: Cloud) -> None:
    cloud.place.segue("run", "plan.md", "--flow", "execute", "--task", "1")
    done = cloud.place.segue("run", "plan.md", "--flow", "execute", "--task", "2")
    branch = cloud.launches()[1]["body"]["repos"][0]["startingRef"]
    assert str(branch).startswith("cursor/")
    assert f"starts from branch {branch}" in done.stderr


def test_a_base_that_is_not_there_or_has_no_effect_is_refused(cloud: Cloud) -> None:
    done = cloud.place.segue("run", "plan.md", "--base", "nowhere", code=2)
    assert "Branch nowhere does not exist on origin" in done.stderr
    done = cloud.place.segue("run", "plan.md", "--agent", "scripted", "--base", "trunk", code=2)
    assert "base (from command line) has no effect: scripted works in your work tree." in done.stderr


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


@pytest.mark.quick("no_branch-nothing")
@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("no_branch", "nothing"),
        ("several_branches", "several branches"),
        ("branch_deleted", "does not exist"),
        ("error", ""),
        ("expired", ""),
    ],
)
def test_what_goes_wrong_with_a_run_stops_the_loop(cloud: Cloud, fault: str, says: str) -> None:
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


@pytest.mark.thorough
def test_a_failed_task_does_not_keep_the_next_one_waiting_if_told_so(cloud: Cloud) -> None:
    cloud.place.more_config('on_failure = "continue"\n')
    cloud.script({"launch": 2, "faults": ["no_branch"]}, {})
    cloud.place.segue("run", "specs/001-greeting", code=3)
    tasks = cloud.state["tasks"]
    assert [tasks[key]["status"] for key in ("T001", "T002", "T003")] == ["done", "failed", "done"]
    begun = cloud.launches()[2]["body"]["repos"][0]["startingRef"]
    assert begun == tasks["T001"]["branch"], "it builds on what is done"
    assert cloud.state["head_branch"] == tasks["T003"]["branch"]


@pytest.mark.quick("1.3")
@pytest.mark.parametrize("moment", [0.4, 0.7, 1.0, 1.3])
def test_kill_9_never_launches_twice(cloud: Cloud, moment: float) -> None:
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


def test_a_missing_key_ends_before_anything(cloud: Cloud) -> None:
    del cloud.place.env["CURSOR_API_KEY"]
    done = cloud.place.segue("run", "specs/001-greeting", code=4)
    assert "CURSOR_API_KEY" in done.stderr


def test_no_remote_is_told(cloud: Cloud) -> None:
    cloud.place.git("remote", "remove", "origin")
    done = cloud.place.segue("run", "specs/001-greeting", code=2)
    assert "git remote add origin" in done.stderr


@pytest.mark.thorough
def test_checks_run_on_the_branch_in_a_tree_of_their_own(cloud: Cloud) -> None:
    cloud.script({"write": {"proof.txt": "yes"}})
    cloud.place.more_config('checks = [["test", "-f", "proof.txt"]]\n')
    cloud.place.segue("run", "specs/001-greeting", "--task", "T001")
    assert not (cloud.place.repo / "proof.txt").exists()


@pytest.mark.thorough
def test_a_plan_file_can_be_carried_by_cloud_agents_too(cloud: Cloud) -> None:
    cloud.place.segue("run", "plan.md", "--flow", "execute")
    refs = [launch["body"]["repos"][0].get("startingRef") for launch in cloud.launches()]
    assert refs[0] == "trunk"
    assert len(set(refs)) == 3, "each task starts from the branch of the one before"


@pytest.mark.thorough
def test_cloud_agents_plan_first_when_asked(cloud: Cloud) -> None:
    cloud.script({"prompt": "Write a plan", "faults": ["no_branch"], "say": "The plan."}, {})
    cloud.place.segue("run", "plan.md", "--flow", "plan", "--task", "1")
    assert len(cloud.launches()) == 2


def test_a_reviewer_cannot_see_what_cloud_agents_do(cloud: Cloud) -> None:
    done = cloud.place.segue("run", "plan.md", "--review", "ruff", code=2)
    assert "cloud agents" in done.stderr
