"""Seed 004: a plan with the Cursor CLI, and review by stet."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from segue.agents.cursor.agent import CursorAgent, CursorOptions
from tests.cli.place import Place
from tests.parts.stet.place import EVAL, StetPlace
from tests.parts.stet.test_stet import review, reviewer
from tests.services import make_services

WORK = '[[on]]\nwrite = { "done-{task}" = "x" }\n'


def write_program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_section_5_plain_text_of_an_agent_cmd_is_the_plan(place: Place) -> None:
    program = write_program(
        place.root / "bin" / "mine",
        '#!/bin/sh\ncat >/dev/null\ncase "$*" in *version*) echo 2026.01.28-abcdef0;;'
        ' *plan*) echo "1. Write it."; echo \'{"a": 1}\';;'
        ' *) echo work > work.txt; echo "I wrote it.";; esac\n',
    )
    place.config(f'agent = "cursor"\nflow = "plan"\n[agents.cursor]\nagent_cmd = "{program}"\n')
    place.env["CURSOR_API_KEY"] = "key_for_a_test"
    place.segue("run", "plan.md", "--task", "1")
    ((plan,),) = place.rows("SELECT output->>'text' FROM orchestrator_steps WHERE phase = 'plan'")
    assert plan == '1. Write it.\n{"a": 1}'


def test_section_8_agent_comes_before_cursor_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("agent", "cursor-agent"):
        write_program(tmp_path / "bin" / name, "#!/bin/sh\necho 2026.01.28-abcdef0\n")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    found = CursorAgent(CursorOptions(), make_services(tmp_path)).installation()
    assert found.program == str(tmp_path / "bin" / "agent")


def test_section_9_stet_starts_and_runs(tmp_path: Path) -> None:
    place = StetPlace.make(tmp_path)
    base = place.head
    place.play(EVAL)
    place.commit({"a.py": "eval(x)\n"})
    log = tmp_path / "called"
    wrapped = write_program(tmp_path / "stet", f'#!/bin/sh\necho "$1" >> {log}\nexec {place.stet} "$@"\n')
    found = review(place, base, cmd=str(wrapped))
    assert [finding.file for finding in found.findings] == ["a.py"]
    called = log.read_text().split()
    assert called.index("start") < called.index("run")


def test_section_13_the_log_has_stets_commands_exit_codes_and_stderr(cursor: Place) -> None:
    cursor.more_config(f'log.file = "{cursor.root / "log"}"\n')
    cursor.segue("run", "plan.md", "--task", "1")
    lines = [json.loads(line) for line in (cursor.root / "log").read_text().splitlines()]
    ran = [line for line in lines if line["event"] == "review.command"]
    assert [line["command"].split()[1] for line in ran] == [
        "status",
        "cleanup",
        "start",
        "run",
        "status",
        "finish",
    ]
    assert all({"command", "exit_code", "seconds", "task"} <= line.keys() for line in ran)
    assert (ran[0]["exit_code"], "No active session" in ran[0]["stderr"]) == (1, True)
    stored = cursor.events("review.command")
    assert len(stored) == len(ran)
    assert json.loads(stored[2]["stdout"])["findings"] == []
    agents = [line for line in lines if line["event"] == "agent.ended"]
    assert [(line["phase"], line["exit_code"]) for line in agents] == [("plan", 0), ("execute", 0)]
    assert all(line["duration"] > 0 for line in agents)


@pytest.mark.parametrize("text", ["a.py:1 eval on input", json.dumps({"findings": []}) + " and more"])
def test_section_9_exit_code_1_of_a_wrapper_means_findings(tmp_path: Path, text: str) -> None:
    place = StetPlace.make(tmp_path)
    wrapper = write_program(tmp_path / "wrapper", f"#!/bin/sh\ncat <<'END'\n{text}\nEND\nexit 1\n")
    found = review(place, place.head, commands=[[str(wrapper)]], cmd="no-such-stet")
    assert found.failure == ""
    assert [finding.message for finding in found.findings] == [text]
    assert reviewer(place)


def test_section_10_the_state_file_is_there_from_the_start(place: Place) -> None:
    place.script('[[on]]\ntask = "1"\nexit_code = 1\n')
    place.segue("run", "plan.md", code=3)
    (path,) = (place.root / "state").rglob("plans/*.json")
    assert json.loads(path.read_text())["completed_task_indices"] == []


def test_section_10_a_corrupted_state_starts_with_task_1_and_warns(place: Place) -> None:
    place.script(WORK)
    place.segue("run", "plan.md", "--task", "1")
    (path,) = (place.root / "state").rglob("plans/*.json")
    data = path.read_text()
    place.database.unlink()
    path.write_text(data[:20])
    place.segue("run", "plan.md", code=None)
    (told,) = place.events("state.imported")
    assert "is corrupted" in told["text"]
    assert "The run starts with the first task." in told["text"]


def test_section_10_a_missing_state_warns_and_starts_with_task_1(place: Place) -> None:
    place.script(WORK)
    place.segue("run", "plan.md", "--task", "1")
    shutil.rmtree(place.root / "state")
    done = place.segue("run", "plan.md", code=None)
    assert (
        "The state file is missing, so the run starts with 1; commits here say that 1 was done."
        in done.stderr
    )
    assert "task 1 started" in done.stderr
    shutil.rmtree(place.root / "state")
    assert "The state file is missing" not in place.segue("run", "plan.md", "--from", "2", code=None).stderr


@pytest.mark.parametrize("how", ["missing", "corrupted"])
def test_section_10_looking_after_a_lost_state_knows_what_is_done(place: Place, how: str) -> None:
    place.script(WORK)
    place.segue("run", "plan.md", "--task", "1")
    (path,) = (place.root / "state").rglob("plans/*.json")
    if how == "missing":
        path.unlink()
    else:
        path.write_text(path.read_text()[:20])
    before = path.exists()
    shown = place.segue("run", "plan.md", "--dry-run")
    assert "task 1:" not in shown.stdout
    assert "task 2:" in shown.stdout
    assert f"is {how}" in shown.stderr
    assert [one["status"] for one in place.json("task", "list", "plan.md")["tasks"]][:2] == [
        "done",
        "pending",
    ]
    assert "1 Write one. (done)" in place.segue("task", "graph", "plan.md").stdout
    assert "2 tasks, in this order" in place.segue("rehearse", "plan.md").stdout
    assert path.exists() == before
