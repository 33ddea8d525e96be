"""The dry run prints exactly what an agent gets, whatever kind of agent it is."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from pathlib import Path

import pytest

from tests.cli.cloud_place import Cloud
from tests.cli.place import Place
from tests.sources.features import example

FEATURE = "specs/001-lending"
WORKER = "import sys; sys.stdout.reconfigure(encoding='utf-8'); text = sys.stdin.read(); open(sys.argv[1], 'w').write(text); open('work', 'a').write('x')"  # noqa: E501


def previews(place: Place, *arguments: str) -> dict[str, str]:
    """Return the prompts of the dry run by task, without the code of their markers."""
    done = place.segue("run", FEATURE, "--dry-run", "--json", *arguments)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    return {record["task"]: without_code(record["prompt"]) for record in records}


def without_code(text: str) -> str:
    found = re.search(r"Marker lines contain the code ([0-9a-f]{16});", text)
    assert found
    return text.replace(found[1], "CODE")


def sent(place: Place, task: str) -> str:
    """Return what was launched for a task first, with the code of its markers."""
    sql = "select text from orchestrator_prompts where text like ? order by rowid limit 1"
    ((text,),) = place.rows(sql, f"%\n{task} %")
    return str(text)


@pytest.fixture
def lending(place: Place) -> Place:
    example(place.repo)
    place.git("add", "--all")
    place.git("commit", "--quiet", "-m", "feature")
    place.segue("sim", "bin", str(place.root / "bin"))
    place.env |= {"PATH": f"{place.root / 'bin'}:{place.env['PATH']}", "SEGUE_SIM_LOGGED_IN": "1"}
    return place


@pytest.mark.thorough
def test_any_program_gets_what_was_printed_and_is_told_what_came_before(lending: Place) -> None:
    got = lending.root / "got"
    argv = json.dumps([sys.executable, "-c", WORKER, str(got)])
    lending.config(f'agent = "command"\nflow = "execute"\nagents.command.argv = {argv}\n')
    assert "(here: what T001 to T003 did)" in previews(lending)["T004"]
    for task in ("T001", "T002"):
        printed = previews(lending)[task]
        lending.segue("run", FEATURE, "--task", task)
        assert without_code(got.read_text()) == printed
    assert "<<<earlier CODE>>>\n- T001 (this task waits for it): work\n<<<end of earlier CODE>>>" in printed


@pytest.mark.quick("cursor-.segue-sim-agent.jsonl-prompt_sha256")
@pytest.mark.parametrize(
    ("agent", "log", "field"),
    [
        ("cursor", ".segue-sim-agent.jsonl", "prompt_sha256"),
        ("gemini", ".segue-sim-acp.jsonl", "sha256"),
    ],
)
def test_agents_with_a_protocol_get_what_was_printed(
    lending: Place, agent: str, log: str, field: str
) -> None:
    lending.config(f'agent = "{agent}"\nflow = "execute"\nallow_no_change = true\n')
    lending.env |= {"GEMINI_API_KEY": "x", "CURSOR_API_KEY": "x"}
    printed = previews(lending, "--task", "T013")["T013"]
    lending.segue("run", FEATURE, "--task", "T013")
    text = sent(lending, "T013")
    assert without_code(text) == printed
    lines = [json.loads(line) for line in find_log(lending.root, log).read_text().splitlines()]
    assert hashlib.sha256(text.encode()).hexdigest() in [line.get(field) for line in lines]


def find_log(root: Path, name: str) -> Path:
    return next(path for path in root.rglob(name))


@pytest.mark.quick("v0")
@pytest.mark.parametrize("version", ["v1", "v0"])
def test_cloud_agents_get_what_was_printed(cloud: Cloud, version: str) -> None:
    place = cloud.place
    place.env["SEGUE_AGENTS__CURSOR_CLOUD__API_VERSION"] = version
    done = place.segue("run", "specs/001-greeting", "--dry-run", "--json", "--task", "T001")
    printed = json.loads(done.stdout.splitlines()[0])["prompt"]
    assert "Leave commits, branches and pull requests to the platform" in printed
    shown = place.segue("run", "specs/001-greeting", "--dry-run", "--task", "T001").stderr
    assert ("adds a last line to find the launch again" in shown) is (version == "v0")
    place.segue("run", "specs/001-greeting", "--task", "T001")
    (launch,) = cloud.launches(version)
    got = launch["body"]["prompt"]["text"]
    if version == "v0":
        got = got.rstrip("\n").rpartition("\n\n")[0]
    assert without_code(got).rstrip("\n") == without_code(printed).rstrip("\n")


PARTS = "## Task 1\n`src/a.py`\n## Task 2\n`src/b.py`\n## Task 3\n`src/a.py`, once more\n"


def test_with_several_jobs_it_says_what_that_can_save(place: Place) -> None:
    (place.repo / "plan.md").write_text(PARTS)
    text = place.segue("run", "plan.md", "--jobs", "2", "--dry-run").stdout
    assert "3 tasks in 2 rounds: 1.5 × as fast as one after the other" in text
    assert "The longest chain is 1 → 3: more jobs cannot make it more than 1.5 × as fast." in text
    assert "What holds it up most: both name src/a.py (1 task)." in text
    *prompts, forecast = map(
        json.loads, place.segue("run", "plan.md", "--jobs", "2", "--dry-run", "--json").stdout.splitlines()
    )
    assert {record["type"] for record in prompts} == {"prompt"}
    assert forecast == {
        "type": "forecast",
        "jobs": 2,
        "tasks": 3,
        "rounds": 2,
        "speedup": 1.5,
        "bound": 1.5,
        "width": 2,
        "chain": ["1", "3"],
        "holdups": [{"why": "both name src/a.py", "tasks": 1}],
        "seconds_per_task": None,
    }
    assert "rounds" not in place.segue("run", "plan.md", "--dry-run").stdout


@pytest.mark.thorough
def test_it_knows_how_long_tasks_took_and_what_they_touched(place: Place) -> None:
    (place.repo / "plan.md").write_text(PARTS.replace("src/a.py", "one").replace("src/b.py", "two"))
    place.segue("run", "plan.md", "--agent", "scripted", "--task", "1", "--allow-dirty")
    text = place.segue("run", "plan.md", "--jobs", "2", "--dry-run").stdout
    assert re.search(r"A task of this source took \d\S+ on average \(1 measured\): about", text)
    done, *rest = place.json("task", "graph", "plan.md")["tasks"]
    assert done["footprint"]["touched"]
    assert [task["footprint"]["touched"] for task in rest] == [[], []]


def test_tasks_that_wait_for_each_other_are_refused_with_several_jobs(place: Place) -> None:
    (place.repo / "plan.md").write_text("## Task 1\nAfter task 2.\n## Task 2\nDepends on task 1.\n")
    for how in (["--dry-run"], ["--agent", "scripted", "--allow-dirty"]):
        refused = place.segue("run", "plan.md", "--jobs", "2", *how, code=2)
        assert "1 → 2 → 1 wait for each other." in refused.stderr
        assert "--jobs 1" in refused.stderr
    place.segue("run", "plan.md", "--dry-run")


def test_fail_fast_is_refused_where_a_failed_task_ends_the_run_anyway(place: Place) -> None:
    (place.repo / "plan.md").write_text(PARTS)
    stops = {"SEGUE_CONTINUE_WITH_REMAINING_TASKS": "false"}
    refused = place.segue("run", "plan.md", "--fail-fast", code=2, **stops)
    assert "--fail-fast has no effect" in refused.stderr
    place.segue("run", "plan.md", "--fail-fast", "--dry-run")
    place.segue("run", "plan.md", "--fail-fast", "--dry-run", SEGUE_CONTINUE_WITH_REMAINING_TASKS="true")
    place.segue("run", "plan.md", "--fail-fast", "--dry-run", SEGUE_JOBS="2")
