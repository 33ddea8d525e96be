"""Experiments on a fleet: every trial is a run of its own, once, and compared as if it had run here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.place import until
from tests.parts.fleet.machines import Fleet
from tests.parts.fleet.shared import sharing

FILE = """
prompts = ["Build a small thing"]
agents = ["scripted:one", "scripted:two"]
trials = {trials}
{more}
"""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, postgres_server: str) -> Iterator[Fleet]:
    """A fleet that nobody works for yet."""
    with sharing(tmp_path_factory.mktemp("lab") / "it", postgres_server) as found:
        (found.user.root / "home" / ".gitconfig").write_text("[user]\nname = T\nemail = t@localhost\n")
        yield found


def write(fleet: Fleet, name: str, trials: int = 1, more: str = "") -> Path:
    path = fleet.user.root / name
    path.write_text(FILE.format(trials=trials, more=more))
    return path


def test_what_the_file_decides_or_a_fleet_cannot_do_is_refused(fleet: Fleet) -> None:
    file = str(write(fleet, "idle.toml"))
    said = fleet.user.segue("submit", file, "--agent", "scripted", "--base", "main", code=2).stderr
    assert "--agent, --base has no effect on an experiment." in said
    assert "submitted alone" in fleet.user.segue("submit", file, "plan.md", code=2).stderr
    file = str(write(fleet, "machine.toml", more='settings.isolation = "none"'))
    assert "isolation belong to a machine" in fleet.user.segue("submit", file, code=2).stderr
    file = str(write(fleet, "secret.toml", more='settings.agents.command.env.API_TOKEN = "hunter2"'))
    assert "Secrets never travel" in fleet.user.segue("submit", file, code=2).stderr
    file = str(write(fleet, "typo.toml", more="settings.limit.attempts = 3"))
    assert "limit" in fleet.user.segue("submit", file, code=2).stderr
    assert fleet.ask("SELECT count(*) FROM orchestrator_runs") == [(0,)]


@pytest.mark.thorough
def test_trials_are_run_by_two_workers_and_compared(fleet: Fleet) -> None:
    file = str(write(fleet, "lab.toml", trials=2))
    machines = [fleet.machine().start("--jobs", "1") for _ in range(2)]
    until(lambda: len(fleet.ask("SELECT 1 FROM segue_fleet.workers")) == 2, "both workers are there")
    for machine in machines:
        machine.freeze()
    first = fleet.user.json("submit", file)
    assert (len(first["runs"]), first["kept"]) == (4, [])
    again = fleet.user.json("submit", file)
    assert (again["runs"], sorted(again["kept"])) == ([], sorted(first["runs"])), "nothing is submitted twice"
    listed = fleet.user.json("experiment", file, "--dry-run")
    assert [(one["state"], one["run"]) for one in listed] == [("queued", run) for run in first["runs"]]
    fleet.user.segue("stop", first["runs"][3])
    for machine in machines:
        machine.thaw()
    for run in first["runs"][:3]:
        fleet.until(run, "done")
    said = fleet.user.segue("experiment", file, code=1).stderr
    assert f"is stopped: see segue logs {first['runs'][3]}" in said
    assert fleet.user.json("submit", file)["again"] == [first["runs"][3]]
    done = fleet.user.json("experiment", file)  # waits for the fleet
    assert {one["state"] for one in done["trials"]} == {"done"}
    assert {one["run"] for one in done["trials"]} == set(first["runs"])
    places = fleet.ask("SELECT DISTINCT place FROM segue_fleet.places")
    assert len(places) == 2, "both machines have worked"
    rows = done["comparison"]["settings"]
    assert [row["setting"] for row in rows] == ["scripted one", "scripted two"]
    assert [(row["passed"]["hits"], row["passed"]["n"]) for row in rows] == [(2, 2), (2, 2)]
    assert done["comparison"]["runs"] == 4
    elsewhere = fleet.user.segue("report", "compare", "--source", "small thing", "--json").stdout
    assert "scripted two" in elsewhere
    kinds = fleet.ask("SELECT DISTINCT kind, spec->>'source' FROM orchestrator_runs")
    assert kinds == [("trial", "Build a small thing")]
    assert fleet.user.git("status", "--porcelain") == "", "nothing was made here"


@pytest.mark.thorough
def test_a_template_is_what_trials_begin_with(fleet: Fleet) -> None:
    file = str(write(fleet, "from.toml", more=f'template = "{fleet.user.repo}"'))
    runs = fleet.user.json("submit", file)["runs"]
    if not fleet.machines:
        fleet.machine().start()
    for run in runs:
        fleet.until(run, "done")
    fleet.user.segue("fetch", runs[0])
    assert fleet.user.git("show", f"segue/{runs[0]}:plan.md").startswith("# Plan")


@pytest.mark.thorough
def test_arms_have_their_own_settings_in_a_fleet_too(fleet: Fleet) -> None:
    file = fleet.user.root / "arms.toml"
    text = """
prompts = ["Build an arm"]
settings.limits.attempts = 2
[arms.one]
agent = "scripted"
[arms.two]
agent = "scripted:big"
prompt = "{{prompt}}, quickly"
limits.attempts = {attempts}
"""
    file.write_text(text.format(attempts="3\nisolation = 'none'"))
    assert "arms.two or settings: isolation" in fleet.user.segue("submit", str(file), code=2).stderr
    file.write_text(text.format(attempts=3))
    runs = fleet.user.json("submit", str(file))["runs"]
    assert len(runs) == 2
    if not fleet.machines:
        fleet.machine().start()
    done = fleet.user.json("experiment", str(file))
    assert {(one["arm"], one["run"], one["state"]) for one in done["trials"]} == {
        ("one", runs[0], "done"),
        ("two", runs[1], "done"),
    }
    assert [(row["source"], row["setting"]) for row in done["comparison"]["settings"]] == [
        ("Build an arm", "arms/one"),
        ("Build an arm", "arms/two"),
    ]
    seen = fleet.ask(
        "SELECT r.arm, r.source, r.model, o.spec->'settings'->'limits'->>'attempts' FROM segue_runs r"
        " JOIN orchestrator_runs o ON o.id = r.run_id WHERE r.experiment = 'arms' ORDER BY 1"
    )
    assert seen == [("one", "Build an arm", None, "2"), ("two", "Build an arm, quickly", "big", "3")]
    file.write_text(text.format(attempts=4))
    assert "arms.two is not what it was" in fleet.user.segue("submit", str(file), code=2).stderr
