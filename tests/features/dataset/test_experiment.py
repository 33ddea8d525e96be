"""Experiments: prompts × agents × trials, resumable, each in a repository of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cli.place import Place, until

ONE = 'prompts = ["Build a small thing"]\nagents = ["scripted:one", "scripted:two"]\nat_once = 2\n'


def write(place: Place, text: str) -> Path:
    path = place.root / "lab.toml"
    path.write_text(text)
    (place.root / "home" / ".gitconfig").write_text("[user]\nname = Tester\nemail = tester@localhost\n")
    return path


def runs(place: Place) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = place.json("status", "--kind", "trial")
    return found


def test_every_combination_is_run_once_and_changed_settings_make_new_trials(place: Place) -> None:
    done = place.json("experiment", str(write(place, ONE)))
    assert {trial["state"] for trial in done["trials"]} == {"done"}
    again = place.segue("experiment", str(write(place, ONE)))
    assert again.stderr.count("was already finished") == 2
    assert "scripted one" in again.stdout, "it ends in the comparison"

    changed = place.json("experiment", str(write(place, f"{ONE}[settings.limits]\nresolutions = 1\n")))
    assert len(runs(place)) == 4
    assert not {trial["run"] for trial in done["trials"]} & {trial["run"] for trial in changed["trials"]}
    compared = changed["comparison"]["settings"]
    assert [(row["setting"], row["passed"]["n"]) for row in compared] == [
        ("scripted one", 1),
        ("scripted two", 1),
    ], "the trials of other settings are not in it"
    everything = place.json("report", "compare", "--kind", "trial")["settings"]
    assert len({row["setting"] for row in everything}) == 4, "nor are they taken for the same elsewhere"

    place.segue("experiment", str(write(place, ONE)), "--trials", "2")
    assert len(runs(place)) == 6, "more trials add what is missing"


def test_arms_have_their_own_settings_and_a_template_is_cloned(place: Place) -> None:
    """A trial that needs a human is a result, and is not repeated."""
    file = write(
        place,
        'prompts = ["Build a small thing"]\nagents = ["scripted"]\ntemplate = "repo"\n'
        'settings.limits.resolutions = 1\n[arms.plain]\nagent = "scripted"\n'
        '[arms.checked]\nmodel = "big"\nsmoke.setup = [["git", "frobnicate"]]\n',
    )
    done = place.json("experiment", str(file))
    assert [(one["arm"], one["state"]) for one in done["trials"]] == [
        ("plain", "done"),
        ("checked", "needs_human"),
    ]
    assert all((Path(trial["repo"]) / "plan.md").exists() for trial in done["trials"])
    rows = done["comparison"]["settings"]
    assert [(row["setting"], row["passed"]["hits"]) for row in rows] == [("lab/checked", 0), ("lab/plain", 1)]
    seen = place.rows("SELECT DISTINCT experiment, arm, model, kind FROM segue_runs ORDER BY arm")
    assert seen == [("lab", "checked", "big", "trial"), ("lab", "plain", None, "trial")]
    resolved = place.rows(
        "SELECT r.arm, count(*) FROM segue_runs r JOIN orchestrator_steps s ON s.run_id = r.run_id"
        " WHERE s.phase = 'resolve' GROUP BY 1"
    )
    assert resolved == [("checked", 1)], "an arm has the settings of the experiment, too"
    assert place.segue("experiment", str(file)).stderr.count("was already finished") == 2


def test_a_killed_experiment_continues_and_repeats_nothing(place: Place) -> None:
    (place.root / "script.toml").write_text(
        f'[[on]]\nphase = "execute"\ntask = 2\nwait_for = "{place.gate}"\n'
    )
    file = write(
        place,
        'prompts = ["Build it now"]\nagents = ["scripted"]\n'
        '[settings.agents.scripted]\nscript = "script.toml"\n',
    )
    running = place.start("experiment", str(file))
    until(lambda: place.started("task/2/execute/1"), "the trial works")
    running.kill()
    running.wait()
    place.gate.touch()
    done = place.json("experiment", str(file), code=0)
    assert [trial["state"] for trial in done["trials"]] == ["done"]
    assert place.rows("select count(*) from orchestrator_steps where phase = 'outline'") == [(1,)]


def test_what_is_wrong_in_the_file_is_named_before_anything_starts(place: Place) -> None:
    one = "prompts = ['a b', 'c d']\nagents = ['scripted']\n"
    for text, message in (
        ("prompts = []\nagents = ['scripted']", "prompts"),
        ("prompts = ['a b']\nagents = ['scripted']\ntrails = 3", "trails"),
        ("prompts = ['a b'", "cannot be read"),
        ("prompts = ['a b']\nagents = ['a,b']", "agents"),
        ("prompts = ['a b', 'a b']\nagents = ['scripted']", "twice"),
        ("prompts = ['poem']\nagents = ['scripted']", "several words"),
        ("prompts = ['a b']", "agents: name at least one"),
        (one + "[arms.x]\nsmok.run = 'x'\n", "arms.x: smok"),
        (one + "[arms.x]\ndatabase_url = 'x.db'\n", "database_url has no effect"),
        (one + "[arms.'x y']\nmodel = 'm'\n", "'x y' is not a name"),
        ("prompts = ['a b']\n[arms.x]\nmodel = 'm'\n", "arms.x has no agent"),
    ):
        assert message in place.segue("experiment", str(write(place, text)), code=2).stderr, text
    assert runs(place) == []
