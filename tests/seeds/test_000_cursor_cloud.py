"""Seed 000: a Spec Kit feature on Cursor's cloud agents, one after the other."""

from __future__ import annotations

import pytest

from tests import loopback
from tests.cli.cloud_place import Cloud
from tests.cli.place import DEADLINE, until
from tests.cli.test_spec import SPEC, TASKS

FOLDER = "specs/001-greeting"
FEATURE = ("run", FOLDER)


def pushed(cloud: Cloud, branch: str, path: str) -> str:
    """Return a file as the hosted repository has it."""
    cloud.place.git("fetch", "--quiet", "origin", branch)
    return cloud.place.git("show", f"FETCH_HEAD:{path}")


@pytest.mark.parametrize("version", ["v1", pytest.param("v0", marks=pytest.mark.thorough)])
def test_fr005_boxes_that_an_agent_ticks_are_named_undone_and_not_counted(cloud: Cloud, version: str) -> None:
    cloud.place.more_config(f'agents.cursor-cloud.api_version = "{version}"\n')
    ticked = TASKS.replace("[ ]", "[x]")
    meddled = {f"{FOLDER}/tasks.md": ticked, f"{FOLDER}/spec.md": "Nothing is wanted.", "done.txt": "1"}
    cloud.script({"launch": 1, "write": {**meddled, "segue.toml": 'judge = "none"\n'}}, {})
    cloud.place.segue(*FEATURE, "--task", "T001")
    branch = cloud.state["tasks"]["T001"]["branch"]
    assert pushed(cloud, branch, f"{FOLDER}/tasks.md") == TASKS
    assert pushed(cloud, branch, f"{FOLDER}/spec.md") == SPEC
    assert pushed(cloud, branch, "done.txt") == "1"
    assert "segue.toml" not in cloud.place.git("ls-tree", "--name-only", "FETCH_HEAD").split()
    assert "Cursor Agent" in cloud.place.git("log", "-1", "--format=%cn", "FETCH_HEAD^"), "its commit stays"
    said = " ".join(one["text"] for event in cloud.place.events("tampering") for one in event["findings"])
    assert "marked as done in tasks.md of its branch: T002 [US1] Greet in src/hello.py, T003" in said
    assert "changed spec.md" in said
    assert "created segue.toml" in said
    cloud.place.git("merge", "--quiet", "--no-edit", "FETCH_HEAD")
    cloud.place.segue(*FEATURE)
    assert len(cloud.launches(version)) == 3, "T002 and T003 were done"


def test_fr005_a_box_that_no_run_ticked_is_asked_about_once(cloud: Cloud) -> None:
    cloud.place.segue(*FEATURE, "--task", "T001")
    tasks = cloud.folder / "tasks.md"
    tasks.write_text(tasks.read_text().replace("[ ] T003", "[x] T003"))
    asked = cloud.place.segue(*FEATURE, code=2)
    assert "T003 is ticked, but no run did it." in asked.stderr
    assert "--plan-changed keep" in asked.stderr
    assert len(cloud.launches()) == 1
    cloud.place.segue(*FEATURE, "--plan-changed", "keep")
    assert len(cloud.launches()) == 2
    assert "Nothing" not in cloud.place.segue(*FEATURE).stderr, "it is not asked again"


def test_fr005_a_box_ticked_while_the_run_works_is_not_done(cloud: Cloud) -> None:
    cloud.script({"launch": 1, "hold": True}, {})
    process = cloud.place.start("run", FOLDER)
    until(cloud.launches, "the agent is launched")
    tasks = cloud.folder / "tasks.md"
    tasks.write_text(tasks.read_text().replace("[ ] T003", "[x] T003"))
    loopback.post(f"{cloud.url}/_sim/release", json={}).raise_for_status()
    assert process.wait(DEADLINE) == 3
    assert cloud.place.json("status", "last")["state"] == "needs_human"
    tasks.write_text(tasks.read_text().replace("[x] T003", "[ ] T003"))
    cloud.place.segue("resume")
    assert len(cloud.launches()) == 3


@pytest.mark.parametrize("version", ["v1", pytest.param("v0", marks=pytest.mark.thorough)])
def test_fr004_a_deleted_agent_stops_the_loop(cloud: Cloud, version: str) -> None:
    cloud.place.more_config(f'agents.cursor-cloud.api_version = "{version}"\n')
    cloud.script({"launch": 2, "statuses": ["RUNNING", "DELETED"]}, {})
    done = cloud.place.segue(*FEATURE, code=3)
    assert "the cloud agent or its run is gone: deleted" in done.stderr
    assert len(cloud.launches(version)) == 2
    assert cloud.state["tasks"]["T002"]["status"] == "failed"
    assert "- [ ] T002" in (cloud.folder / "tasks.md").read_text()


@pytest.mark.parametrize("version", ["v1", pytest.param("v0", marks=pytest.mark.thorough)])
def test_fr005_a_failed_agent_can_be_found(cloud: Cloud, version: str) -> None:
    cloud.place.more_config(f'agents.cursor-cloud.api_version = "{version}"\n')
    cloud.script({"launch": 1, "push": "early", "faults": ["error"]}, {})
    done = cloud.place.segue(*FEATURE, code=3)
    record = cloud.state["tasks"]["T001"]
    agent, branch = record["agent_id"], record["branch"]
    assert agent.startswith("bc-")
    assert "/" not in agent
    assert record["url"] == f"https://cursor.com/agents/{agent}"
    assert branch not in ("trunk", None)
    assert cloud.state["head_branch"] is None
    place = f"cloud agent {agent} on branch {branch}: {record['url']}"
    assert place in done.stderr
    assert place in cloud.place.segue("status", "last").stdout
    assert agent in cloud.place.segue("proof", "last", code=None).stdout
    assert record["url"] in cloud.place.segue("logs", "last").stdout
    task = cloud.place.json("status", "last")["tasks"][0]
    assert (task["agent_id"], task["url"], task["branch"]) == (agent, record["url"], branch)
    cloud.script({})
    cloud.place.segue("resume")
    assert "/" not in cloud.state["tasks"]["T001"]["agent_id"], "of a task that is done too"


def lose_state(cloud: Cloud) -> None:
    """Move to another machine: the ticks are here, and nothing else that Segue knows."""
    (cloud.folder / "state.json").unlink()
    cloud.place.env["XDG_STATE_HOME"] = str(cloud.place.root / "elsewhere")


def test_fr015_missing_state_stops_before_the_chain_breaks(cloud: Cloud) -> None:
    cloud.place.segue(*FEATURE, "--task", "T001")
    branch = cloud.state["head_branch"]
    lose_state(cloud)
    done = cloud.place.segue(*FEATURE, code=2)
    assert "Cannot proceed: state file is missing or corrupted. T001 is ticked" in done.stderr
    assert "--base BRANCH" in done.stderr
    assert len(cloud.launches()) == 1
    cloud.place.segue(*FEATURE, "--task", "T002", "--base", branch)
    assert cloud.launches()[-1]["body"]["repos"][0]["startingRef"] == branch


def test_fr015_missing_state_is_rebuilt_from_trailers_of_pushed_branches(cloud: Cloud) -> None:
    place = cloud.place
    place.git("switch", "--quiet", "--create", "cursor/first")
    place.git("commit", "--quiet", "--allow-empty", "-m", "First\n\nSegue-Task: T001")
    place.git("push", "--quiet", "origin", "cursor/first")
    place.git("switch", "--quiet", "trunk")
    tasks = cloud.folder / "tasks.md"
    tasks.write_text(tasks.read_text().replace("[ ] T001", "[x] T001"))
    place.segue(*FEATURE, "--task", "T002")
    assert cloud.launches()[0]["body"]["repos"][0]["startingRef"] == "cursor/first"


def test_fr015_ticks_that_were_pushed_with_the_start_are_believed(cloud: Cloud) -> None:
    tasks = cloud.folder / "tasks.md"
    tasks.write_text(tasks.read_text().replace("[ ] T001", "[x] T001"))
    cloud.place.git("commit", "--quiet", "--all", "-m", "Done by hand")
    cloud.place.git("push", "--quiet", "origin", "trunk")
    cloud.place.segue(*FEATURE, "--task", "T002")
    assert cloud.launches()[0]["body"]["repos"][0]["startingRef"] == "trunk"


@pytest.mark.parametrize("squash", [True, pytest.param(False, marks=pytest.mark.thorough)])
def test_fr011_a_branch_that_was_merged_and_deleted_is_continued_where_it_was_merged(
    cloud: Cloud, squash: bool
) -> None:
    cloud.place.segue(*FEATURE, "--task", "T001")
    branch = cloud.state["head_branch"]
    cloud.place.git("stash", "--quiet")
    cloud.place.git("fetch", "--quiet", "origin", branch)
    cloud.place.git("push", "--quiet", "origin", "--delete", branch)
    done = cloud.place.segue(*FEATURE, "--base", "trunk", code=2)
    assert f"Branch {branch} does not exist on origin" in done.stderr
    how = ["--squash"] if squash else ["--no-ff"]
    cloud.place.git("merge", "--quiet", "--no-edit", *how, "FETCH_HEAD")
    if squash:
        cloud.place.git("commit", "--quiet", "-m", "The work of T001")
    cloud.place.git("push", "--quiet", "origin", "trunk")
    cloud.place.git("stash", "pop", "--quiet")
    cloud.place.segue(*FEATURE, "--base", "trunk")
    assert [one["body"]["repos"][0]["startingRef"] for one in cloud.launches()][1] == "trunk"


def test_fr009_finished_with_nothing_pushed_is_verified_and_followed_up_twice(cloud: Cloud) -> None:
    cloud.script({"faults": ["no_branch"]})
    cloud.place.segue(*FEATURE, code=3)
    steps = cloud.place.rows("SELECT phase FROM orchestrator_steps WHERE task = 'T001' ORDER BY seq")
    worked = [phase for (phase,) in steps if phase in ("execute", "verify", "resolve")]
    assert worked == ["execute", "verify", "resolve", "verify", "resolve", "verify"]
    assert len(cloud.launches()) == 1, "follow-ups go to the same agent"
