"""Seed 004: a plan with the Cursor CLI, and review by stet."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from segue.agents.cursor.agent import CursorAgent, CursorOptions
from tests.cli.place import Place
from tests.cli.test_phases import cursor, stet_finds
from tests.reviewers.stet_place import EVAL, StetPlace, review, reviewer
from tests.services import make_services

WORK = '[[on]]\nwrite = { "done-{task}" = "x" }\n'


def write_program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def cursor_calls(place: Place) -> list[list[str]]:
    """How the stand-in for the Cursor CLI was called with a prompt, in order."""
    lines = (place.root / "agent.toml.state").read_text().splitlines()
    return [one["argv"] for one in map(json.loads, lines) if "-p" in one.get("argv", ())]


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Two tasks that went through plan, execute, stet and address."""
    place: Place = Place.make(
        tmp_path_factory.mktemp("planned"), plan="## Task 3\nThree.\n\n## Task 1\nOne.\n"
    )
    place = cursor.__wrapped__(place)  # type: ignore[attr-defined]
    (place.root / "agent.toml").write_text(
        '[[on]]\nphase = "address"\nwrite = { "code.py" = "fixed = True\\n" }\n'
        '[[on]]\nmode = "agent"\nwrite = { "code.py" = "BAD = {task}\\n" }\n'
    )
    stet_finds(place, {"pattern": "BAD", "severity": "error", "category": "bug", "message": "BAD is bad"})
    place.more_config(
        'final.review = [["git", "log", "--oneline", "-1"]]\nfinal.audit = [["git", "status"]]\n'
    )
    place.segue("run", "plan.md")
    return place


def test_fr1_tasks_are_read_and_ordered_by_their_number(planned: Place) -> None:
    started = [event["task"] for event in planned.events("task.started")]
    assert started == ["1", "3"]


def test_fr2_plan_mode_gives_the_plan(planned: Place) -> None:
    assert [one for one in cursor_calls(planned)[0] if one.startswith("--mode")]
    assert json.loads(planned.state_file().read_text())["last_plan_by_task"]["1"]


def test_fr3_the_plan_is_in_the_prompt_of_the_next_process(planned: Place) -> None:
    plan = json.loads(planned.state_file().read_text())["last_plan_by_task"]["1"]
    ((text,),) = planned.rows("SELECT text FROM segue_prompts WHERE task = '1' AND phase = 'execute'")
    assert plan.splitlines()[0] in text
    assert not any(one.startswith(("--mode", "--model", "--resume")) for one in cursor_calls(planned)[1])


def test_fr4_and_fr5_stet_runs_and_its_findings_are_addressed(planned: Place) -> None:
    phases = [
        phase
        for (phase,) in planned.rows("SELECT phase FROM orchestrator_steps WHERE task = '1' ORDER BY seq")
    ]
    assert [one for one in phases if one in ("review", "address")] == ["review", "address", "review"]
    ((text,),) = planned.rows("SELECT text FROM segue_prompts WHERE task = '1' AND phase = 'address'")
    assert "BAD is bad" in text


def test_fr6_the_state_names_plan_repository_and_tasks(planned: Place) -> None:
    state = json.loads(planned.state_file().read_text())
    assert state["plan_path"] == str(planned.repo / "plan.md")
    assert state["repo_path"] == str(planned.repo)
    assert state["completed_task_indices"] == [1, 3]
    assert planned.segue("run", "plan.md").stdout == "No pending tasks to process.\n"


@pytest.mark.parametrize(("option", "tasks"), [("--task", ["2"]), ("--from", ["2", "3"])])
def test_fr7_one_task_or_all_from_one_on(place: Place, option: str, tasks: list[str]) -> None:
    place.script(WORK)
    place.segue("run", "plan.md", option, "2")
    assert [event["task"] for event in place.events("task.started")] == tasks


def test_fr8_the_documents_settings_are_understood(place: Place) -> None:
    place.config('agent_cmd = "agent"\nphase_timeout_sec = 5\nmax_address_rounds = 2\nsandbox = "disabled"\n')
    said = place.segue("run", "plan.md", "--dry-run").stderr
    assert "agent_cmd is now agents.cursor.agent_cmd." in said
    assert "phase_timeout_sec is now limits.phase_timeout." in said
    assert "max_address_rounds is now review.max_address_rounds." in said


def test_fr9_final_commands_run_once_and_are_reported(planned: Place) -> None:
    assert [(one["label"], one["exit_code"]) for one in planned.events("final")] == [
        ("review", 0),
        ("audit", 0),
    ]


@pytest.mark.parametrize("data", [b"\xff\xfe## Task 1\nx\n", None])
def test_section_14_a_plan_that_cannot_be_read_ends_before_any_task(place: Place, data: bytes | None) -> None:
    (place.repo / "plan.md").unlink()
    if data is not None:
        (place.repo / "plan.md").write_bytes(data)
    place.segue("run", "plan.md", code=2)
    assert place.json("status") == []


def test_section_14_a_folder_without_git_is_refused(place: Place) -> None:
    shutil.rmtree(place.repo / ".git")
    assert "git" in place.segue("run", "plan.md", code=2).stderr


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
    place.script("[[on]]\nexit_code = 1\n")
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
    done = place.segue("run", "plan.md", "--fail-fast", code=None)
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
