"""A fleet's run from a machine that has nothing of it: no clone, another home, another state folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.place import DEADLINE, Place, until
from tests.parts.fleet.machines import Fleet
from tests.parts.fleet.shared import sharing
from tests.web.place import Served, serving

TASKS = "id,title,criteria\n1,Write one,the file f1 exists\n2,Write two,\n"
SCRIPT = """
[[on]]
phase = "verify"
verdict = {{ evidence = "these words" }}
[[on]]
task = "2"
wait_for = "{gate}"
exit_code = 1
[[on]]
write = {{ "f{{task}}" = "these words\\n" }}
"""
SETTINGS = (
    'agent = "scripted"\nflow = "spec"\njudged_by = "agent"\nlimits.attempts = 1\n'
    '[agents.scripted]\nscript = "script.toml"\n'
)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, postgres_server: str) -> Iterator[Fleet]:
    """A fleet whose agents fail at task 2, when the gate is open."""
    root = tmp_path_factory.mktemp("far") / "it"
    with sharing(root, postgres_server) as found:
        found.commit(script__toml=SCRIPT.format(gate=root / "gate"), segue__toml=SETTINGS, tasks__csv=TASKS)
        yield found


@pytest.fixture(scope="module")
def elsewhere(fleet: Fleet) -> Place:
    """Somebody on another machine, in a folder without a repository."""
    place = Place.make(fleet.root / "elsewhere")
    place.env["SEGUE_DATABASE_URL"] = fleet.url
    place.repo.rename(place.root / "gone")
    place.repo.mkdir()
    return place


@pytest.fixture(scope="module")
def page(elsewhere: Place) -> Iterator[Served]:
    with serving(elsewhere) as served:
        yield served


@pytest.fixture(scope="module")
def run(fleet: Fleet, elsewhere: Place, page: Served) -> str:
    """A run that was watched, and decided about, from the other machine until it was done."""
    (run,) = fleet.submit("tasks.csv", "--needs", "linux", "--needs", "has:sh")
    assert page.data(f"/runs/{run}")["run"]["state"] == "queued"
    said = elsewhere.segue("status", run).stdout
    assert f"Run {run}: queued" in said
    assert "Waiting for a worker that has sh, linux since" in said
    follow = elsewhere.start("logs", "-f", run)
    fleet.machine().start()
    until(lambda: launched(fleet, run, "2"), "the agent works on task 2")
    elsewhere.segue("stop", run)
    assert fleet.state(run) == "stopped"
    assert follow.wait(DEADLINE) == 0, "it ends with the session"
    elsewhere.segue("resume", run)
    (fleet.root / "gate").touch()
    fleet.until(run, "needs_human")
    return run


def launched(fleet: Fleet, run: str, task: str) -> bool:
    return bool(fleet.steps(run, f"task/{task}/execute/1"))


def diff(page: Served, run: str) -> Any:
    """The diff of the first launch, as the page shows it, and why there is none."""
    (step,) = [step for step in page.data(f"/runs/{run}")["tasks"][0]["steps"] if step["phase"] == "execute"]
    return page.data(f"/runs/{run}/steps/{step['seq']}")


@pytest.mark.thorough
def test_everything_is_seen_from_elsewhere(fleet: Fleet, elsewhere: Place, page: Served, run: str) -> None:
    proof = elsewhere.segue("proof", run, "1").stdout
    assert "the file f1 exists" in proof, "the sentence of the criterion is in the repository alone"
    assert "+these words" in str(diff(page, run)["diff"])
    assert [task["key"] for task in elsewhere.json("status", run)["tasks"]] == ["1", "2"]
    lines = elsewhere.segue("logs", run).stdout
    assert "run ended: needs_human" in lines or "needs a human" in lines
    assert "f1 exists" in page.get(f"/runs/{run}/tasks/1/proof").text
    assert page.data(f"/runs/{run}")["counts"] == {
        "pending": 0,
        "running": 0,
        "needs_human": 1,
        "done": 1,
    }
    elsewhere.segue("gc", "--dry-run")


@pytest.mark.thorough
def test_a_person_decides_from_elsewhere(fleet: Fleet, elsewhere: Place, page: Served, run: str) -> None:
    refused = page.post(f"/runs/{run}/tasks/1/comment", text="otherwise").json()["error"]
    assert "already done" in refused["message"], "its source is with a worker"
    assert "Comment and retry" in page.get(f"/runs/{run}/tasks/2").text
    page.post(f"/runs/{run}/tasks/2/comment", text="Use two words", then="retry")
    until(lambda: len(fleet.events(run, "run.ended")) == 3, "it has failed again")
    fleet.until(run, "needs_human")
    assert fleet.ask("SELECT 1 FROM orchestrator_prompts WHERE text LIKE '%%Use two words%%'")
    elsewhere.segue("task", "skip", "2", "--run", run, "--reason", "by hand")
    elsewhere.segue("resume", run)
    fleet.until(run, "done")
    assert "by hand" in elsewhere.segue("proof", run, "2").stdout
    assert "is done" in elsewhere.segue("resume", run, code=2).stderr


@pytest.mark.thorough
def test_with_a_remote_the_diff_needs_a_clone(fleet: Fleet, page: Served) -> None:
    if not fleet.machines:
        fleet.machine().start()
    fleet.share()
    (run,) = fleet.submit("tasks.csv", "--task", "1")
    fleet.until(run, "done")
    why = diff(page, run)
    assert f"segue fetch {run}" in why["no_diff"]
    assert why["diff"] is None
    with serving(fleet.user) as mine:
        assert "+these words" in str(diff(mine, run)["diff"]), "its base is in this clone"
    assert fleet.user.git("branch", "--list", "segue/*") == "", "nothing was brought here for that"
