"""What "done" means to a user: checks in every flow, levels that are required, settings that hold."""

from __future__ import annotations

import pytest

from tests.cli.place import Place

WORK = '[[on]]\nwrite = { "work-{task}.txt" = "x" }\n'
PROMPT = "Write a file."


def ready(place: Place, settings: str = "", script: str = WORK) -> Place:
    place.script(script)
    place.more_config(settings)
    return place


def test_a_check_whose_program_is_missing_is_found_before_the_first_launch(place: Place) -> None:
    ready(place, 'checks = ["no-such-program --fast"]\n')
    done = place.segue("run", "plan.md", code=5)
    assert "no-such-program was not found" in done.stderr
    assert place.json("status") == []


@pytest.mark.parametrize(
    ("level", "code"), [("judged", 0), ("checked", 2), ("held", 2), ("accepted", 2), ("changed", 0)]
)
def test_a_level_that_cannot_be_reached_is_refused_before_the_start(
    place: Place, level: str, code: int
) -> None:
    ready(place, f'require = "{level}"\n')
    done = place.segue("run", "plan.md", code=code)
    assert ("cannot be reached" in done.stderr) == (code == 2)


def test_a_level_that_is_not_reached_needs_a_human(place: Place) -> None:
    ready(place, 'require = "tested"\nchecks = ["test -d ."]\n')
    done = place.segue("run", "plan.md", code=3)
    assert "`tested` is required" in done.stderr
    assert [task["proof"] for task in place.json("status", "last")["tasks"]] == [None, None, None]


@pytest.mark.quick("plan")
@pytest.mark.parametrize("flow", ["execute", "review", "plan"])
def test_a_failing_check_goes_back_to_the_agent_in_every_flow(place: Place, flow: str) -> None:
    fixes = '[[on]]\nphase = "resolve"\nwrite = { "notes.txt" = "x" }\ndelete = ["work-1.txt"]\n'
    check = '["sh", "-c", "! ls work-1*"]'
    ready(place, f'flow = "{flow}"\nchecks = [{check}]\n', fixes + WORK)
    place.segue("run", "plan.md", "--task", "1", "--task", "2")
    tasks = place.json("status", "last")["tasks"]
    assert [task["attempts"] for task in tasks][:2] == ([3, 2] if flow == "plan" else [2, 1])
    assert len(place.events("prompt")) == (5 if flow == "plan" else 3)


@pytest.mark.thorough
def test_an_agent_that_weakens_the_settings_changes_nothing(place: Place) -> None:
    """Neither in this run nor in the next one: what it wrote is put back."""
    settings = place.repo / "segue.toml"
    settings.write_text(
        'agent = "scripted"\nchecks = [["sh", "-c", "! ls a*"]]\n[agents.scripted]\nscript = "script.toml"\n'
    )
    script = '[[on]]\nwrite = { "segue.toml" = "agent = \\"scripted\\"\\n", "a.txt" = "x" }\n'
    (place.repo / "script.toml").write_text(script)
    place.git("add", "--all")
    place.git("commit", "--quiet", "-m", "settings")
    before = settings.read_text()
    done = place.segue("run", "plan.md", code=3)
    assert "tampering: The agent changed Segue's settings in segue.toml. It was put back" in done.stderr
    assert settings.read_text() == before
    place.segue("resume", code=3)
    assert settings.read_text() == before
