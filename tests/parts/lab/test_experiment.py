"""Experiments: prompts × agents × trials, resumable, each in a repository of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

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
    found: list[dict[str, Any]] = place.json("status", "--kind", "trial")
    return found


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_a_trial_that_needs_a_human_is_a_result_and_is_not_repeated(place: Place) -> None:
    (place.root / "script.toml").write_text('[[on]]\nphase = "execute"\nexit_code = 1\n')
    file = write(
        place,
        'prompts = ["Build it now"]\nagents = ["scripted"]\n[settings.limits]\nresolutions = 0\n'
        '[settings.agents.scripted]\nscript = "script.toml"\n',
    )
    done = place.json("experiment", str(file))
    assert [trial["state"] for trial in done["trials"]] == ["needs_human"]
    place.segue("experiment", str(file))
    assert len(runs(place)) == 1


@pytest.mark.thorough
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


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_a_plan_says_what_can_be_found_and_starts_nothing(place: Place) -> None:
    file = write(place, FILE.format(trials=3))
    told = place.segue("experiment", "plan", str(file)).stdout
    assert "2 × 2 × 3 = 12 trials" in told
    assert "On each prompt alone, 3 runs of each agent: no difference would be found in 80 %" in told
    assert "scripted:one: no forecast of time and cost, only 0 earlier trials ended." in told
    assert runs(place) == []
    many = place.json("experiment", "plan", str(file), "--trials", "60")
    assert many["power"][0]["smallest"] < 0.4
    few = write(
        place, 'prompts = ["Build a small thing"]\nagents = ["scripted:one"]\ntrials = 3\nat_once = 2\n'
    )
    place.segue("experiment", str(few))
    after = place.json("experiment", "plan", str(few))
    assert (after["past_runs"], after["pass_rate"]) == (3, 1.0)
    assert after["forecast"]["scripted:one"]["runs"] == 3
    assert after["forecast"]["scripted:one"]["seconds"]["low"] > 0


ARMS = """
prompts = {prompts}
agents = ["scripted"]
settings.limits.resolutions = 1

[arms.plain]
resolve = "judge"

[arms.checked]
model = "big"
prompt = "{{prompt}}. Work test-first."
smoke.setup = [["git", "frobnicate"]]
"""


@pytest.mark.thorough
def test_arms_differ_in_what_they_set_and_are_compared_by_name(place: Place) -> None:
    file = write(place, ARMS.format(prompts=["Build a small thing", "Build a large thing"]))
    listed = place.json("experiment", str(file), "--dry-run")
    assert [one["arm"] for one in listed] == ["plain", "checked", "plain", "checked"]
    told = place.segue("experiment", "plan", str(file)).stdout
    assert "2 × 2 × 1 = 4 trials (prompts × arms × trials)." in told
    assert "checked: no forecast of time and cost, only 0 earlier trials ended." in told
    write(place, ARMS.format(prompts=["Build a large thing"]))
    done = place.json("experiment", str(file))
    assert [(one["arm"], one["state"]) for one in done["trials"]] == [
        ("plain", "done"),
        ("checked", "needs_human"),
    ]
    rows = done["comparison"]["settings"]
    assert [(row["source"], row["setting"], row["passed"]["hits"]) for row in rows] == [
        ("Build a large thing", "lab/checked", 0),
        ("Build a large thing", "lab/plain", 1),
    ]
    seen = place.rows("SELECT DISTINCT experiment, arm, model, kind FROM segue_runs ORDER BY arm")
    assert seen == [("lab", "checked", "big", "trial"), ("lab", "plain", None, "trial")]
    sources = place.rows("SELECT DISTINCT source FROM segue_runs WHERE arm = 'checked' ORDER BY 1")
    assert sources == [("Build a large thing. Work test-first.",)]
    resolved = place.rows(
        "SELECT r.arm, count(*) FROM segue_runs r JOIN orchestrator_steps s ON s.run_id = r.run_id"
        " WHERE s.phase = 'resolve' GROUP BY 1"
    )
    assert resolved == [("checked", 1)], "an arm has the settings of the experiment, too"
    found = place.json("report", "compare", "--source", "large")
    assert {row["setting"] for row in found["settings"]} == {"lab/checked", "lab/plain"}
    again = place.segue("experiment", str(file))
    assert again.stderr.count("was already finished") == 2
    after = place.json("experiment", "plan", str(file))
    assert {arm: one["runs"] for arm, one in after["forecast"].items()} == {"plain": 1, "checked": 1}


@pytest.mark.thorough
def test_an_arm_that_has_results_cannot_change_under_the_same_name(place: Place) -> None:
    text = 'prompts = ["Build it now"]\nagents = ["scripted"]\n[arms.{name}]\nmodel = "{model}"\n'
    place.segue("experiment", str(write(place, text.format(name="one", model="small"))))
    changed = str(write(place, text.format(name="one", model="big")))
    for more in ((), ("--dry-run",)):
        said = place.segue("experiment", changed, *more, code=2).stderr
        assert "arms.one is not what it was" in said
    place.segue("experiment", str(write(place, text.format(name="two", model="big"))))
    seen = place.rows("SELECT arm, model FROM segue_runs ORDER BY arm")
    assert seen == [("one", "small"), ("two", "big")]


@pytest.mark.thorough
def test_a_prompt_of_an_arm_can_be_a_file_and_a_trial_stays_one_when_it_is_resumed(place: Place) -> None:
    (place.root / "words.md").write_text("Build exactly this, step by step\n")
    (place.root / "script.toml").write_text(
        f'[[on]]\nphase = "execute"\ntask = 2\nwait_for = "{place.gate}"\n'
    )
    file = write(
        place,
        'prompts = ["Build it now"]\nagents = ["scripted"]\n[arms.words]\nprompt_file = "words.md"\n'
        'agents.scripted.script = "script.toml"\n',
    )
    running = place.start("experiment", str(file))
    until(lambda: place.started("task/2/execute/1"), "the trial works")
    place.segue("stop", runs(place)[0]["id"])
    running.wait()
    place.gate.touch()
    place.segue("resume", runs(place)[0]["id"])
    seen = place.rows("SELECT source, experiment, arm, kind, state FROM segue_runs")
    assert seen == [("Build exactly this, step by step", "lab", "words", "trial", "done")]
    found = place.json("report", "compare", "--source", "build it now")
    assert [row["source"] for row in found["settings"]] == ["Build it now"]


@pytest.mark.thorough
def test_what_is_wrong_with_an_arm_is_named_before_anything_starts(place: Place) -> None:
    start = "prompts = ['a b', 'c d']\n"
    one = start + "agents = ['scripted']\n"
    for text, message in (
        (start, "agents: name at least one"),
        (one + "[arms.x]\n", "arms.x sets nothing"),
        (one + "[arms.x]\nresolv = 'random'\n", "arms.x: resolv"),
        (one + "[arms.x]\nresolve = 'dice'\n", "arms.x: resolve"),
        (one + "[arms.x]\ndatabase_url = 'x.db'\n", "database_url has no effect"),
        (one + "[settings]\nlimit.attempts = 3\n", "settings: limit"),
        (one + "[arms.'x y']\nmodel = 'm'\n", "'x y' is not a name"),
        (one + "[arms.x]\nmodel = 'm'\n[arms.X]\nmodel = 'n'\n", "twice"),
        (one + "[arms.x]\nagent = 'scripted'\n", "has no effect"),
        (one + "[arms.x]\nmodel = 3\n", "arms.x.model"),
        (one + "[arms.x]\nprompt = 3\n", "arms.x.prompt: expected text"),
        (one + "[arms.x]\nprompt = 'quite another'\n", "all prompts the same"),
        (one + "[arms.x]\nprompt = 'p {prompt}'\nprompt_file = 'p.md'\n", "both prompt and prompt_file"),
        (one + "[arms.x]\nprompt_file = 'none.md'\n", "none.md does not exist"),
        (start + "[arms.x]\nmodel = 'm'\n", "arms.x has no agent"),
        (start + "[arms.x]\nagent = 3\n", "arms.x.agent"),
        (start + "[arms.x]\nagent = 'a:b'\nmodel = 'm'\n", "name a model"),
        (start + "agents = ['a', 'b']\n[arms.x]\nmodel = 'm'\n", "only one agent"),
        (start + "agents = ['a']\narms.x = 3\n", "arms"),
    ):
        assert message in place.segue("experiment", "run", str(write(place, text)), code=2).stderr, text
    for command in ("plan", "run"):
        more = ("--dry-run",) if command == "run" else ()
        assert message in place.segue("experiment", command, str(write(place, text)), *more, code=2).stderr
    assert runs(place) == []
