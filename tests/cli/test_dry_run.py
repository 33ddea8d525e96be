"""The dry run prints exactly what an agent gets, whatever kind of agent it is."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

from tests.cli.cloud_place import Cloud
from tests.cli.place import Place
from tests.fakes.cursor_cli import write_cli
from tests.sources.features import example

FEATURE = "specs/001-lending"


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


def test_agents_get_what_was_printed(place: Place) -> None:
    example(place.repo)
    place.git("add", "--all")
    place.git("commit", "--quiet", "-m", "feature")
    script = write_cli(place.root / "bin")
    place.env["PATH"] = f"{place.root / 'bin'}:{place.env['PATH']}"
    place.config('agent = "cursor"\nflow = "execute"\nallow_no_change = true\n')
    printed = previews(place, "--task", "T013")["T013"]
    place.segue("run", FEATURE, "--task", "T013")
    text = sent(place, "T013")
    assert without_code(text) == printed
    seen = [json.loads(line) for line in Path(f"{script}.state").read_text().splitlines()]
    assert hashlib.sha256(text.encode()).hexdigest() in [line.get("prompt_sha256") for line in seen]


def test_cloud_agents_get_what_was_printed(cloud: Cloud) -> None:
    version = "v0"
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


def test_tasks_that_wait_for_each_other_are_refused_with_several_jobs(place: Place) -> None:
    (place.repo / "plan.md").write_text("## Task 1\nAfter task 2.\n## Task 2\nDepends on task 1.\n")
    for how in (["--dry-run"], ["--agent", "scripted", "--allow-dirty"]):
        refused = place.segue("run", "plan.md", "--jobs", "2", *how, code=2)
        assert "1 → 2 → 1 wait for each other." in refused.stderr
        assert "--jobs 1" in refused.stderr
    place.segue("run", "plan.md", "--dry-run")
