"""A rehearsal shows what a run would do, and leaves nothing: no commit, no state, no mark, no folder."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.cli.place import Place, until
from tests.cli.test_first_run import answer
from tests.cli.test_refusals import WORK, hide_programs, listing, stop_notes, write
from tests.cli.test_spec import SPEC, TASKS

SIMULATED = "The scripted agent is simulated"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A place whose temporary folder is looked at, too."""
    made = Place.make(tmp_path)
    (tmp_path / "tmp").mkdir()
    made.env["TMPDIR"] = str(tmp_path / "tmp")
    return made


def rehearse(place: Place, *words: str, code: int = 0) -> list[str]:
    """Rehearse, see to it that nothing has changed anywhere, and return what was printed."""
    before = listing(place.root)
    done = place.segue("rehearse", *words, code=code)
    assert listing(place.root) == before
    return done.stdout.strip().splitlines()


def test_a_plan_that_nobody_has_committed_by_nobody(place: Place) -> None:
    hide_programs(place)
    stop_notes(place)
    place.git("config", "--unset", "user.name")
    place.git("config", "--unset", "user.email")
    place.git("rm", "--quiet", "--cached", "plan.md")
    place.git("-c", "user.name=x", "-c", "user.email=x@x", "commit", "--quiet", "-m", "no plan")
    write(place, "src/new.py", "x = 1\n", commit=False)
    shown = rehearse(place, "plan.md")
    assert shown[0] == "Rehearsed plan.md: 3 tasks, in this order. Nothing of it is kept."
    assert [line.split()[0] for line in shown[1:4]] == ["1", "2", "3"]
    assert all(line.endswith("· done") for line in shown[1:4])
    assert "No agent is ready on this machine: segue doctor says what is missing." in shown
    assert "Commit first, or a real run does not start: plan.md, src/new.py" in shown
    assert shown[-1] == "segue run plan.md"


def test_what_the_checks_say_today(place: Place) -> None:
    write(place, "test_it.py", "def test_good(): pass\ndef test_bad(): assert 0\n", commit=False)
    place.config('agent = "scripted"\nchecks = ["python3 -m pytest -q -p no:cacheprovider", "true"]\n')
    shown = rehearse(place, "plan.md", "--task", "1")
    checks = shown.index("Checks, on your work tree as it is today:")
    assert "1 of 2 tests fail: test_it.py::test_bad" in shown[checks + 1]
    assert shown[checks + 2] == "  true: passed"


def test_a_feature_a_table_and_a_sentence(place: Place) -> None:
    write(place, "specs/001-greeting/spec.md", SPEC)
    write(place, "specs/001-greeting/tasks.md", TASKS, commit=False)
    shown = rehearse(place, "specs/001-greeting", "--agent", "claude")
    assert "  verify   claude" in shown
    assert shown[-1] == "segue run specs/001-greeting --agent claude"
    outside = place.root / "list.csv"
    outside.write_text("id,title\na,Write a\nb,Write b\n")
    assert "2 tasks" in rehearse(place, "../list.csv")[0]
    place.git("config", "--unset", "user.name")
    build = rehearse(place, "Build a todo app", "--repo", "todo")
    assert build[-1] == "segue run 'Build a todo app' --repo todo"
    assert "3 tasks" in build[0]


def test_what_reaches_beyond_the_clone_is_left_out_and_named(place: Place) -> None:
    place.config(
        'agent = "scripted"\ndelivery = "pr"\nlog.file = "planted.log"\n'
        'database_url = "planted.db"\nstate_dir = "planted"\nfinal.review = ["touch planted"]\n'
        '[notify.webhook]\nurl = "http://127.0.0.1:9/"\n'
    )
    shown = rehearse(place, "plan.md", "--task", "1")
    assert 'Not rehearsed: delivery = "pr", [final] commands, notifications.' in shown


def test_for_programs(place: Place) -> None:
    place.config('agent = "claude"\nchecks = ["true"]\n')
    records = [json.loads(line) for line in rehearse(place, "plan.md", "--json")]
    assert {record["type"] for record in records[:-1]} == {"event"}
    told = records[-1]
    assert told["type"] == "rehearsal"
    assert [task["state"] for task in told["tasks"]] == ["done"] * 3
    assert [(check["command"], check["exit_code"]) for check in told["checks"]] == [("true", 0)]
    assert told["agents"] == {"execute": "claude"}
    assert told["next"] == "segue run plan.md"


WAITING = '[[on]]\nwait_for = "GATE"\n'


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_that_is_stopped_leaves_nothing(place: Place, number: signal.Signals) -> None:
    place.script(WAITING)
    before = listing(place.root)
    process = place.start("rehearse", "plan.md")
    until(lambda: [*(place.root / "tmp").glob("*/state/runs/*/jobs/*/job.json")], "the agent works")
    process.send_signal(number)
    assert process.wait(place.patience) == 130
    for log in place.root.glob("out-*"):
        assert "Nothing of it is left." in log.read_text()
        log.unlink()
    assert listing(place.root) == before


def test_what_a_killed_one_leaves_is_removed_by_the_next(place: Place) -> None:
    place.script(WAITING)
    before = listing(place.root)
    process = place.start("rehearse", "plan.md")
    until(lambda: [*(place.root / "tmp").glob("*/state/runs/*/jobs/*/job.json")], "the agent works")
    process.kill()
    process.wait(place.patience)
    for log in place.root.glob("out-*"):
        log.unlink()
    left = {name for name in listing(place.root) if name not in before}
    assert {Path(name).parts[:1] for name in left} == {("tmp",)}
    assert any(Path(name).parts[1].startswith("segue-rehearsal-") for name in left)
    place.gate.touch()
    place.segue("rehearse", "plan.md", "--task", "1")
    place.gate.unlink()
    assert listing(place.root) == before


def test_the_simulated_agent_asks_before_it_uses_up_a_plan(place: Place) -> None:
    stop_notes(place)
    words = ("run", "plan.md", "--agent", "scripted")
    before = listing(place.root)
    said = answer(place, (b"Run anyway?", b"n"), args=words, code=2)
    assert SIMULATED in said
    assert "segue rehearse plan.md" in said
    refused = place.segue(*words, code=2).stderr
    assert "Rehearse instead: segue rehearse plan.md" in refused
    assert "or run anyway: segue run plan.md --agent scripted --yes" in refused
    assert listing(place.root) == before
    answer(place, (b"Run anyway?", b"y"), args=(*words, "--task", "1"))
    place.segue(*words, "--task", "2", "--yes")
    assert len(place.subjects()) == 2
    place.script(WORK)
    place.segue("run", "plan.md")
    assert len(place.subjects()) == 3
