"""Experiments: prompts × agents × trials, resumable, each in a repository of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cli.place import Place, until

FILE = """
prompts = ["Build a small thing", "Build a small thing, but blue"]
agents = ["scripted:one", "scripted:two"]
trials = {trials}
at_once = 2
limits.scripted = 2
"""


def write(place: Place, text: str) -> Path:
    path = place.root / "lab.toml"
    path.write_text(text)
    (place.root / "home" / ".gitconfig").write_text("[user]\nname = Tester\nemail = tester@localhost\n")
    return path


def runs(place: Place) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = place.json("status")
    return found


def test_every_combination_is_run_once_and_more_trials_add_only_what_is_missing(place: Place) -> None:
    file = write(place, FILE.format(trials=1))
    done = place.json("experiment", str(file))
    assert {trial["state"] for trial in done["trials"]} == {"done"}
    assert len(runs(place)) == 4
    assert len({trial["repo"] for trial in done["trials"]}) == 4, "prompts that begin alike have own folders"
    again = place.segue("experiment", str(file))
    assert again.stderr.count("was already finished") == 4
    place.segue("experiment", str(file), "--trials", "2")
    assert len(runs(place)) == 8
    assert "one" in again.stdout, "it ends in the comparison"


def test_a_trial_that_needs_a_human_is_a_result_and_is_not_repeated(place: Place) -> None:
    (place.root / "script.toml").write_text('[[on]]\nphase = "execute"\nexit_code = 1\n')
    file = write(
        place,
        'prompts = ["Build it now"]\nagents = ["scripted"]\n'
        '[settings.agents.scripted]\nscript = "script.toml"\n',
    )
    done = place.json("experiment", str(file))
    assert [trial["state"] for trial in done["trials"]] == ["needs_human"]
    place.segue("experiment", str(file))
    assert len(runs(place)) == 1


def test_settings_and_a_template_hold_for_every_trial(place: Place) -> None:
    file = write(
        place,
        'prompts = ["Build it now"]\nagents = ["scripted"]\ntemplate = "repo"\n'
        '[settings]\nsmoke.setup = [["git", "frobnicate"]]\nlimits.resolutions = 1\n',
    )
    done = place.json("experiment", str(file))
    (trial,) = done["trials"]
    assert (Path(trial["repo"]) / "plan.md").exists(), "it is a clone of the template"
    assert trial["state"] == "needs_human", "the check of the settings failed"
    resolved = place.rows("select count(*) from orchestrator_steps where phase = 'resolve'")
    assert resolved == [(1,)]


def test_a_killed_experiment_goes_on_and_repeats_nothing(place: Place) -> None:
    (place.root / "script.toml").write_text(
        f'[[on]]\nphase = "execute"\ntask = 2\nwait_for = "{place.gate}"\n'
    )
    file = write(
        place,
        'prompts = ["Build it now"]\nagents = ["scripted"]\ntrials = 2\n'
        '[settings.agents.scripted]\nscript = "script.toml"\n',
    )
    running = place.start("experiment", str(file))
    until(lambda: place.started("task/2/execute/1"), "the first trial works")
    running.kill()
    running.wait()
    place.gate.touch()
    done = place.json("experiment", str(file), code=0)
    assert [trial["state"] for trial in done["trials"]] in (["done", "done"], ["needs_human", "needs_human"])
    launches = place.rows(
        "select run_id, count(*) from orchestrator_steps where phase = 'outline' group by 1"
    )
    assert [count for _, count in launches] == [1, 1]


def test_what_is_wrong_in_the_file_is_named(place: Place) -> None:
    for text, message in (
        ("prompts = []\nagents = ['scripted']", "prompts"),
        ("prompts = ['a b']\nagents = ['scripted']\ntrails = 3", "trails"),
        ("prompts = ['a b'", "cannot be read"),
        ("prompts = ['a b']\nagents = ['a,b']", "agents"),
        ("prompts = ['a b', 'a b']\nagents = ['scripted']", "twice"),
        ("prompts = ['a b']\nagents = ['scripted:x/y', 'scripted:x y']", "twice"),
        ("prompts = ['poem']\nagents = ['scripted']", "several words"),
        ("prompts = [\"a \\u0000 b\"]\nagents = ['scripted']", "several words"),
    ):
        assert message in place.segue("experiment", str(write(place, text)), code=2).stderr


def test_a_plan_says_what_can_be_found_and_starts_nothing(place: Place) -> None:
    file = write(place, FILE.format(trials=3))
    told = place.segue("experiment", "plan", str(file)).stdout
    assert "2 × 2 × 3 = 12 trials" in told
    assert "On each prompt, 3 runs of each agent: no difference would be found in 80 %" in told
    assert "scripted:one: no forecast of time and cost, only 0 earlier trials ended." in told
    assert runs(place) == []
    many = place.json("experiment", "plan", str(file), "--trials", "60")
    assert many["power"][0]["smallest"] < 0.4
    place.segue("experiment", str(file))
    after = place.json("experiment", "plan", str(file))
    assert (after["past_runs"], after["pass_rate"]) == (12, 1.0)
    assert after["forecast"]["scripted:one"]["runs"] == 3
    assert after["forecast"]["scripted:one"]["seconds"]["low"] > 0
