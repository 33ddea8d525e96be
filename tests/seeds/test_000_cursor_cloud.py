"""Seed 000: a Spec Kit feature on Cursor's cloud agents, one after the other."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from tests import loopback
from tests.cli.cloud_place import HOSTED, Cloud, open_cloud
from tests.cli.place import DEADLINE, Place, until
from tests.cli.test_spec import SPEC, TASKS

FOLDER = "specs/001-greeting"
FEATURE = ("run", FOLDER)


def pushed(cloud: Cloud, branch: str, path: str) -> str:
    """Return a file as the hosted repository has it."""
    cloud.place.git("fetch", "--quiet", "origin", branch)
    return cloud.place.git("show", f"FETCH_HEAD:{path}")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """A feature of three tasks that was run to its end."""
    with open_cloud(Place.make(tmp_path_factory.mktemp("done"))) as cloud:
        (cloud.folder / "plan.md").write_text("# Plan\n\n## Summary\n\nPlain Python without a framework.\n")
        cloud.place.git("commit", "--quiet", "--all", "-m", "plan")
        cloud.place.git("push", "--quiet", "origin", "trunk")
        cloud.place.segue(*FEATURE)
        yield cloud


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """A feature whose first task the model never lets pass."""
    with open_cloud(Place.make(tmp_path_factory.mktemp("refused")), judge={"default": False}) as cloud:
        cloud.said = cloud.place.segue(*FEATURE, code=3).stderr
        yield cloud


def prompts(cloud: Cloud, path: str = "/v1/agents") -> list[str]:
    return [one["body"]["prompt"]["text"] for one in cloud.posts(path)]


def test_fr001_the_next_task_is_the_first_open_box(done: Cloud) -> None:
    assert [re.findall(r"^T00\d", text, re.MULTILINE)[0] for text in prompts(done)] == [
        "T001",
        "T002",
        "T003",
    ]


def test_fr001_a_box_without_an_id_among_tasks_is_a_task(cloud: Cloud) -> None:
    tasks = cloud.folder / "tasks.md"
    tasks.write_text(TASKS.replace("- [ ] T002", "- [ ] Write the README\n- [ ] T002"))
    cloud.place.git("commit", "--quiet", "--all", "-m", "More")
    cloud.place.git("push", "--quiet", "origin", "trunk")
    listed = cloud.place.segue("task", "list", FOLDER)
    assert listed.stdout.splitlines()[2].split()[1:4] == ["Write", "the", "README"]
    shown = cloud.place.segue(*FEATURE, "--dry-run", "--json").stdout.splitlines()
    assert "Write the README" in json.loads(shown[1])["prompt"]
    cloud.place.segue(*FEATURE)
    assert len(cloud.launches()) == 4
    assert "- [x] Write the README" in tasks.read_text()


def test_fr002_spec_and_plan_are_in_the_prompt(done: Cloud) -> None:
    text = prompts(done)[1]
    assert "**Given** a name, **When** the program runs, **Then** it prints a greeting" in text
    assert "Plain Python without a framework." in text


def test_fr003_agents_are_launched_by_the_api_of_version_0(cloud: Cloud) -> None:
    cloud.place.more_config('agents.cursor-cloud.api_version = "v0"\n')
    cloud.place.segue(*FEATURE, "--task", "T001")
    (launch,) = cloud.launches("v0")
    assert launch["body"]["source"] == {"repository": HOSTED, "ref": "trunk"}


@pytest.mark.parametrize("status", ["FAILED", "STOPPED", "ERROR", "CANCELLED", "EXPIRED"])
def test_fr004_a_failed_or_stopped_agent_stops_the_loop(cloud: Cloud, status: str) -> None:
    cloud.script({"launch": 1, "statuses": ["RUNNING", status]}, {})
    cloud.place.segue(*FEATURE, code=3)
    assert len(cloud.launches()) == 1
    assert cloud.state["tasks"]["T001"]["error"]
    assert "[x]" not in (cloud.folder / "tasks.md").read_text()


def test_fr005_state_and_boxes_say_the_same(done: Cloud) -> None:
    assert {key: one["status"] for key, one in done.state["tasks"].items()} == dict.fromkeys(
        ("T001", "T002", "T003"), "done"
    )
    assert (done.folder / "tasks.md").read_text() == TASKS.replace("[ ]", "[x]")


def test_fr006_a_small_model_verifies_each_task_by_its_criteria(done: Cloud, refused: Cloud) -> None:
    asked = loopback.get(f"{done.judge}/_sim/log").json()["requests"]
    assert {one["body"]["model"] for one in asked} == {"gpt-4o-mini"}
    verdicts = [done.state["tasks"][key]["verdict"] for key in ("T001", "T002", "T003")]
    assert [one["result"] for one in verdicts] == ["PASS"] * 3
    assert "US1/AC1" in [one["key"] for one in verdicts[2]["criteria"]], "with the last task of the story"
    assert refused.state["tasks"]["T001"]["verdict"]["result"] == "FAIL"


def test_fr007_a_dry_run_prints_the_prompts_and_launches_nothing(cloud: Cloud) -> None:
    said = cloud.place.segue(*FEATURE, "--dry-run")
    assert said.stdout.count("──── task T00") == 3
    assert cloud.launches() == []


def test_fr008_the_model_is_asked_about_work_alone(done: Cloud) -> None:
    assert len(loopback.get(f"{done.judge}/_sim/log").json()["requests"]) == 3, "one verification per task"


def test_fr009_two_follow_ups_are_sent_after_a_failed_verification(refused: Cloud) -> None:
    assert len(refused.launches()) == 1
    assert len(refused.posts("/v1/agents/*/runs")) == 2


def test_fr010_the_user_is_told_after_the_last_retry(refused: Cloud) -> None:
    assert "task T001 needs a human" in refused.said
    assert "- [ ] T001" in (refused.folder / "tasks.md").read_text()


def test_fr011_a_task_starts_from_the_branch_of_the_one_before(done: Cloud) -> None:
    starts = [one["body"]["repos"][0]["startingRef"] for one in done.launches()]
    branches = [done.state["tasks"][key]["branch"] for key in ("T001", "T002")]
    assert starts == ["trunk", *branches]


def test_fr012_the_last_branch_is_in_the_state(done: Cloud) -> None:
    assert done.state["head_branch"] == done.state["tasks"]["T003"]["branch"]


def test_fr013_a_retry_says_what_is_missing_and_what_is_wanted(refused: Cloud) -> None:
    for text in prompts(refused, "/v1/agents/*/runs"):
        assert "not met" in text
        assert "T001 Create the folder in src/" in text


def test_fr014_a_retry_works_on_the_same_branch(refused: Cloud) -> None:
    steps = refused.place.rows(
        "SELECT output->>'branches' FROM orchestrator_steps WHERE phase IN ('execute', 'resolve')"
    )
    assert len(steps) == 3
    assert len(set(steps)) == 1


def test_fr015_no_task_is_pending(done: Cloud) -> None:
    assert done.place.segue(*FEATURE).stdout == "No pending tasks to process.\n"


@pytest.mark.parametrize("text", ["{", pytest.param("[]")])
def test_fr015_a_corrupt_state_stops_with_the_words_of_the_document(cloud: Cloud, text: str) -> None:
    (cloud.folder / "state.json").write_text(text)
    said = cloud.place.segue(*FEATURE, code=2)
    assert "Cannot proceed: state file is missing or corrupted." in said.stderr
    assert cloud.launches() == []


def test_us1_an_unknown_task_is_refused(cloud: Cloud) -> None:
    said = cloud.place.segue(*FEATURE, "--task", "T009", code=2)
    assert "T009" in said.stderr
    assert cloud.launches() == []


def test_sc003_three_tasks_run_without_input(done: Cloud) -> None:
    assert len(done.launches()) == 3
    assert done.place.json("status", "last")["state"] == "done"


@pytest.mark.parametrize("version", ["v1", pytest.param("v0")])
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


@pytest.mark.parametrize("version", ["v1", pytest.param("v0")])
def test_fr004_a_deleted_agent_stops_the_loop(cloud: Cloud, version: str) -> None:
    cloud.place.more_config(f'agents.cursor-cloud.api_version = "{version}"\n')
    cloud.script({"launch": 2, "statuses": ["RUNNING", "DELETED"]}, {})
    done = cloud.place.segue(*FEATURE, code=3)
    assert "the cloud agent or its run is gone: deleted" in done.stderr
    assert len(cloud.launches(version)) == 2
    assert cloud.state["tasks"]["T002"]["status"] == "failed"
    assert "- [ ] T002" in (cloud.folder / "tasks.md").read_text()


@pytest.mark.parametrize("version", ["v1", pytest.param("v0")])
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


@pytest.mark.parametrize("squash", [True, pytest.param(False)])
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
