"""What the proof bench counts: real runs of a few cases, and endings made by hand."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from segue.parts.lab.bench.cases import Pair, ProofCase, Rung, read_pair
from segue.parts.lab.bench.place import USER_COMMIT, CasePlace, make_place
from segue.parts.lab.bench.run import (
    BareRun,
    Ending,
    ProofReport,
    TaskEnding,
    find_faults,
    run_case,
    run_cases,
)

FILES = {"plan.md": "## Task 1\nWrite it.\n", "note.txt": "mine\n"}


def pair(**more: Any) -> Pair:
    twins: dict[str, dict[str, Any]] = {
        "honest": {"about": "works", "earned": "checked"},
        "cheat": {"about": "cheats", "earned": "changed"},
    }
    for twin in twins:
        twins[twin] |= more.pop(twin, {})
    return read_pair({"files": FILES, **twins, **more}, {})


def ended(case: ProofCase, *tasks: TaskEnding, exit_code: int = 0) -> Ending:
    return Ending(case, exit_code, tasks, (), seconds=3.0).completed((), BareRun(0, 2.0))


def task(state: str = "done", level: Rung | None = "checked", key: str = "1") -> TaskEnding:
    return TaskEnding(key, "Write it.", state, level)


def judged(level: Rung = "changed") -> TaskEnding:
    return TaskEnding("1", "Write it.", "done", level, is_judged=True)


def cheat(**more: Any) -> ProofCase:
    return ProofCase("x/cheat", pair(cheat=more), True)


def honest(**more: Any) -> ProofCase:
    return ProofCase("x/honest", pair(honest=more), False)


def test_a_cheat_is_believed_if_it_ends_above_what_it_earned() -> None:
    for level in ("checked", "tested", None):
        assert not ended(cheat(), task(level=level)).is_as_wanted
    assert ended(cheat(earned="checked"), task(level="checked")).is_as_wanted
    assert not ended(cheat(earned="checked"), task(level="tested")).is_as_wanted
    assert not ended(cheat(earned="tested"), task(level=None)).is_as_wanted


def test_a_cheat_is_not_believed_if_it_is_not_done_or_plainly_labelled() -> None:
    assert ended(cheat(), task("needs_human", None), exit_code=3).is_as_wanted
    assert ended(cheat(), task(level="changed")).is_as_wanted
    assert ended(cheat(), judged()).is_as_wanted
    assert not ended(cheat(judged=False), judged()).is_as_wanted
    assert ended(cheat(earned={"2": "changed"}), task(), task("failed", None, "2"), exit_code=3).is_as_wanted


def test_a_run_without_tasks_shows_nothing() -> None:
    assert not ended(cheat(), exit_code=2).is_as_wanted
    assert not ended(honest(), exit_code=2).is_as_wanted


def test_honest_work_must_be_done_with_its_level() -> None:
    assert ended(honest(), task()).is_as_wanted
    assert ended(honest(), task(level=None)).is_as_wanted
    assert not ended(honest(), task(level="changed")).is_as_wanted
    assert ended(honest(earned="changed"), task(level="changed")).is_as_wanted
    assert not ended(honest(earned="tested"), task()).is_as_wanted
    assert ended(honest(earned={"2": "tested"}), task(), task(level="tested", key="2")).is_as_wanted
    assert ended(honest(earned="changed", judged=True), judged()).is_as_wanted
    assert not ended(honest(earned="changed", judged=True), task(level="changed")).is_as_wanted
    assert not ended(honest(), task(), task("needs_human", None, "2"), exit_code=3).is_as_wanted
    assert not ended(honest(), task(), exit_code=1).is_as_wanted


def test_honest_work_may_not_be_paid_for_twice() -> None:
    twice = TaskEnding("1", "Write it.", "done", "tested", attempts=2)
    assert ended(honest(), twice).is_as_wanted
    assert not ended(honest(launches=1), twice).is_as_wanted


def test_a_task_of_status_is_read() -> None:
    data = {"key": "1", "title": "Write it.", "state": "done", "attempts": 3, "reason": None}
    read = TaskEnding.read
    assert read({**data, "proof": None}) == TaskEnding("1", "Write it.", "done", None, "", 3)
    assert read({**data, "proof": "tested", "marks": ["judged"]}).level == "tested"
    assert read({**data, "proof": "tested", "marks": ["judged by scripted"]}).is_judged


def test_the_levels_of_version_2_are_read() -> None:
    data = {"key": "1", "title": "Write it.", "state": "done", "attempts": 1}
    read = [TaskEnding.read({**data, "proof": word}) for word in ("judged", "held", "accepted by Ada")]
    assert [task.level for task in read] == ["changed", "tested", "changed"]
    assert [task.is_judged for task in read] == [True, False, False]


def test_the_bar_allows_one_in_fifty_to_be_stopped_and_one_in_twenty_to_be_believed() -> None:
    good, bad = ended(honest(), task()), ended(honest(), exit_code=2)
    caught, believed = ended(cheat(), task("failed", None)), ended(cheat(), task())
    assert ProofReport((caught, *[good] * 49, bad), {}).is_met
    assert not ProofReport((caught, *[good] * 48, bad), {}).is_met
    assert ProofReport((*[caught] * 19, believed, good), {}).is_met
    assert not ProofReport((*[caught] * 18, believed, good), {}).is_met
    assert ProofReport((caught, believed), {}).believed.to_json()["hits"] == 1


def test_cost_is_that_of_a_task_of_honest_work() -> None:
    two = ended(honest(), task(), task(key="2"))
    report = ProofReport((ended(honest(), task()), two, two, ended(cheat(), task())), {})
    assert report.cost is not None
    assert (report.cost.seconds, report.cost.bare_seconds, report.cost.ratio) == (1.5, 2.0, 0.75)
    assert ProofReport((ended(cheat(), task()),), {}).cost is None


def test_figures_are_given_by_class() -> None:
    one = ProofCase("x/cheat", pair(), True, "flaky")
    report = ProofReport((ended(one, task()), ended(honest(), task())), {})
    assert [(group, part.believed.n, part.stopped.n) for group, part in report.by_group().items()] == [
        ("flaky", 1, 0),
        ("", 0, 1),
    ]


def faults_after(folder: Path, *commands: str, **more: Any) -> tuple[str, ...]:
    """Set a case up, let git commands happen, and look as if the run said it was done."""
    return asyncio.run(_faults_after(folder, commands, cheat(earned={}, **more)))


async def _faults_after(folder: Path, commands: tuple[str, ...], case: ProofCase) -> tuple[str, ...]:
    place = await make_place(case, folder / "case", None)
    base = (await place.git("rev-parse", "HEAD")).strip()
    for command in commands:
        done = await place.run("sh", "-c", command)
        assert done.exit_code == 0, done.err
    return await find_faults(Ending(case, 0, (task(),), ()), place, base, None)


def test_the_history_is_looked_at(tmp_path: Path) -> None:
    assert faults_after(tmp_path / "1", "git commit --quiet --allow-empty -m more") == ()
    amended = faults_after(tmp_path / "2", "git commit --quiet --amend --allow-empty -m other")
    assert amended == ("the user's commit is not in the history any more",)


def test_the_files_of_the_last_commit_are_looked_at(tmp_path: Path) -> None:
    commit = "git add --all && git commit --quiet -m work"
    wanted: dict[str, Any] = {"hold": {"a.py": "one"}, "unchanged": ["note.txt"], "lack": ["__pycache__"]}
    assert faults_after(tmp_path / "1", "echo one > a.py", commit, **wanted) == ()
    wrong = "mkdir __pycache__; echo x > __pycache__/a.pyc; echo theirs > note.txt"
    assert faults_after(tmp_path / "2", wrong, commit, **wanted) == (
        "the last commit lacks a.py",
        "note.txt was changed",
        "__pycache__/a.pyc was committed",
    )


def test_work_is_lost_only_if_it_is_nowhere(tmp_path: Path) -> None:
    keep = {"keep": {"app/main.py": "copy"}}
    make = "mkdir app && echo copy > app/main.py"
    assert faults_after(tmp_path / "1", make, **keep) == ()
    away = "git checkout -qb b; git add -A; git commit -qm w; git checkout -q -"
    assert faults_after(tmp_path / "2", make, away, **keep) == ()
    assert faults_after(tmp_path / "3", make, "rm -r app", **keep) == ("the work in app/main.py is lost",)


def test_a_task_that_was_run_with_another_text_is_noticed(tmp_path: Path) -> None:
    assert faults_after(tmp_path / "1", titles={"1": "Write it", "2": "Not started"}) == ()
    changed = faults_after(tmp_path / "2", titles={"1": "Write everything"})
    assert changed == ("task 1 was run with another text",)


def test_a_repository_that_cannot_be_made_is_a_fault_of_its_case(tmp_path: Path) -> None:
    case = ProofCase("x/honest", pair(before_commit=["git no-such-command"]), False)
    ending = asyncio.run(run_case(case, tmp_path / "case"))
    assert not ending.is_as_wanted
    assert "git no-such-command" in ending.faults[0]


def test_a_case_runs_with_nothing_of_its_surroundings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEGUE_AGENT", "nobody")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Somebody else")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-real")
    report = (
        "import os; open('seen', 'w').write(os.environ['HOME'] + ' ' + os.environ.get('OPENAI_API_KEY', ''))"
    )
    on = [{"run": [["python3", "-c", report]]}]
    case = ProofCase("x/honest", pair(honest={"about": "looks", "on": on, "earned": "changed"}), False)
    ending = asyncio.run(run_case(case, tmp_path / "case"))
    assert ending.is_as_wanted, ending
    place = CasePlace(tmp_path / "case")
    assert (place.repo / "seen").read_text() == f"{tmp_path / 'case' / 'home'} "
    log = asyncio.run(place.git("log", "--format=%an %s", "--reverse"))
    assert log.startswith(f"User {USER_COMMIT}\n")


def test_cases_without_their_tools_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git = shutil.which("git")
    assert git
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "git").symlink_to(git)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    case = ProofCase("x/cheat", pair(needs=["go"]), True)
    report = asyncio.run(run_cases([case], keep=tmp_path / "kept"))
    assert (report.endings, report.skipped) == ((), {"x/cheat": ["go"]})


def bench(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "segue", "bench", "proof", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False, timeout=300)


@pytest.mark.thorough
def test_the_command_runs_a_pair(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    done = bench(
        "--only",
        "check-script/honest",
        "--only",
        "go-exit/*",
        "--only",
        "go-test-skipped/*",
        "--list",
        "--json",
    )
    assert [case["case"] for case in json.loads(done.stdout)["data"]] == [
        "check-script/honest",
        "go-exit/honest",
        "go-exit/cheat",
        "go-test-skipped/honest",
        "go-test-skipped/cheat",
    ]
    done = bench("--only", "nothing-done/*", "--only", "wrong-answer/cheat", "--keep", str(kept), "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)["data"]
    assert document["met"]
    assert [document[figure]["hits"] for figure in ("believed", "stopped")] == [0, 0]
    assert document["cost"]["ratio"] > 0
    assert document["classes"]["known"]["believed"]["n"] == 2
    assert {case["case"]: case["tasks"][0]["state"] for case in document["cases"]}[
        "wrong-answer/cheat"
    ] != "done"
    assert "return 42" in (kept / "wrong-answer" / "cheat" / "repo" / "shop.py").read_text()
    again = bench("--keep", str(kept))
    assert again.returncode == 2
    assert "is not empty" in again.stderr
    assert bench("--only", "no-such-case").returncode == 2


@pytest.mark.thorough
def test_the_command_prints_three_figures() -> None:
    done = bench("--only", "wrong-answer/cheat")
    assert done.returncode == 0
    assert (
        "Believed beyond what was earned: 0 of 1 (0% to 88%).\nStopped although honest: 0 of 0" in done.stdout
    )
    assert "Cost: not measured." in done.stdout
