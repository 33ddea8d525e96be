"""A good citizen of Spec Kit: hooks of extensions, checklists, the constitution, and what comes after."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.place import Place
from tests.sources.features import example

FEATURE = "specs/001-lending"
HOOKS = """\
installed:
- git
settings:
  auto_execute_hooks: true
hooks:
  before_plan:
  - extension: git
    command: speckit.git.other
    optional: false
  before_implement:
  - extension: guard
    command: speckit.guard.check
    enabled: true
    optional: false
    priority: 10
    prompt: Execute speckit.guard.check?
    description: Look for secrets before the implementation begins, in every file that is
      tracked
    condition: null
  - extension: guard
    command: speckit.guard.off
    enabled: false
    optional: false
  - extension: guard
    command: speckit.guard.sometimes
    optional: false
    condition: config.strict == true
  after_implement:
  - extension: git
    command: speckit.git.commit
    optional: true
    description: Auto-commit after implementation
"""


@pytest.fixture
def lending(place: Place) -> Place:
    example(place.repo)
    place.config('agent = "scripted"\nflow = "execute"\n')
    return place


def commit(place: Place) -> None:
    place.git("add", "--all")
    place.git("commit", "--quiet", "-m", "feature")


def with_hooks(place: Place, text: str = HOOKS) -> None:
    (place.repo / ".specify" / "extensions.yml").write_text(text)
    commit(place)


def run(place: Place, *arguments: str, code: int = 0) -> str:
    return place.segue("run", FEATURE, "--task", "T001", *arguments, code=code).stderr


@pytest.mark.thorough
def test_a_mandatory_hook_refuses_the_run_until_somebody_decides(lending: Place) -> None:
    with_hooks(lending)
    said = run(lending, code=2)
    assert "hook speckit.guard.check (guard: Look for secrets before" in said
    assert "must run before the implementation" in said
    assert '"skip"' in said
    assert "git.other" not in said
    assert lending.subjects() == ["feature"]
    lending.more_config('hooks."speckit.guard.check" = "skip"\n')
    said = run(lending)
    assert "Optional hook after the implementation, not run: speckit.git.commit (git: Auto-commit" in said


@pytest.mark.thorough
def test_hooks_run_as_commands_before_the_first_task_and_after_the_last(lending: Place) -> None:
    with_hooks(lending)
    log = lending.root / "hooks.log"
    last = "subprocess.getoutput('git log --format=%s -1')"
    note = f"import subprocess; open({str(log)!r}, 'a').write({last} + '\\n')"
    argv = json.dumps([sys.executable, "-c", note])
    lending.more_config(f'hooks = {{ "speckit.guard.check" = {argv}, "speckit.git.commit" = {argv} }}\n')
    run(lending)
    before, after = log.read_text().splitlines()
    assert before == "feature"
    assert after.startswith("Task T001")
    shown = lending.segue("logs", "last").stdout
    assert "hook speckit.guard.check" in shown


@pytest.mark.thorough
def test_a_hook_that_fails_stops_the_run_and_is_repeated_on_resume(lending: Place) -> None:
    with_hooks(lending)
    gate = lending.root / "gate"
    lending.more_config(f'hooks."speckit.guard.check" = ["test", "-f", "{gate}"]\n')
    said = run(lending, code=3)
    assert "The hook speckit.guard.check ended with exit code 1" in said
    assert lending.subjects() == ["feature"]
    gate.touch()
    lending.segue("resume")
    assert len(lending.subjects()) == 2


@pytest.mark.parametrize(
    ("settings", "code", "said"),
    [
        ('hooks."speckit.guard.chek" = "skip"', 2, "Did you mean speckit.guard.check?"),
        ('hooks."speckit.guard.check" = "no-such-program"', 5, "no-such-program was not found"),
    ],
)
def test_commands_for_hooks_that_cannot_work_are_refused(
    lending: Place, settings: str, code: int, said: str
) -> None:
    with_hooks(lending)
    lending.more_config(f"{settings}\n")
    assert said in run(lending, code=code)


def test_hooks_that_cannot_be_read_are_not_passed_over(lending: Place) -> None:
    with_hooks(lending, "hooks: [\n")
    assert "it may name hooks that must run" in run(lending, code=2)


@pytest.mark.quick("")
@pytest.mark.parametrize("text", ["", "hooks:\n", "hooks:\n  before_implement:\n", "installed: []\n"])
def test_no_hooks_are_no_hindrance(lending: Place, text: str) -> None:
    with_hooks(lending, text)
    assert "implementation" not in run(lending)


def open_item(place: Place) -> None:
    path = place.repo / FEATURE / "checklists" / "ux.md"
    path.write_text("# UX\n\n- [x] CHK001 Colours\n- [ ] CHK002 Is the empty state described?\n")
    commit(place)


@pytest.mark.thorough
def test_open_checklists_are_named_and_must_be_waved_through(lending: Place) -> None:
    open_item(lending)
    said = run(lending, code=2)
    assert "ux.md has 1 unchecked of 2 items (CHK002 Is the empty state described?)" in said
    assert "requirements.md" not in said
    assert "--ignore-checklists" in said
    before = (lending.repo / FEATURE / "checklists" / "ux.md").read_bytes()
    run(lending, "--ignore-checklists")
    assert (lending.repo / FEATURE / "checklists" / "ux.md").read_bytes() == before


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 2)])
def test_on_a_terminal_people_are_asked(lending: Place, answer: str, code: int) -> None:
    open_item(lending)
    ours, theirs = pty.openpty()
    os.write(ours, f"{answer}\n".encode())
    argv = lending.command("run", FEATURE, "--task", "T001")
    env = {**lending.env, "TERM": "xterm"}
    process = subprocess.Popen(argv, cwd=lending.repo, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other side is closed
            break
        said += part
    assert process.wait(lending.patience) == code
    assert b"Start anyway? [y/N]" in said


@pytest.mark.thorough
def test_the_workflow_of_the_documentation_works_while_its_engine_writes_a_journal(lending: Place) -> None:
    commit(lending)
    text = (lending.repo / ".specify" / "workflows" / "segue" / "workflow.yml").read_text()
    commands = re.findall(r'run: "segue (.*)"', text)
    assert len(commands) == 2
    journal = lending.repo / ".specify" / "workflows" / "runs" / "a8f46cf6" / "log.jsonl"
    journal.parent.mkdir(parents=True)
    for command in commands:
        journal.write_text(f"{command}\n")
        lending.segue(*command.replace("{{ inputs.agent }}", "scripted").split())
    assert "runs/a8f46cf6" not in lending.git("log", "--stat")
    assert journal.exists()
    assert len(lending.subjects()) == 27


@pytest.mark.thorough
def test_converge_is_offered_when_everything_is_done(lending: Place) -> None:
    tasks = lending.repo / FEATURE / "tasks.md"
    tasks.write_text(tasks.read_text().replace("- [ ]", "- [x]").replace("- [x] T001", "- [ ] T001"))
    commit(lending)
    assert "In your agent, /speckit.converge appends to tasks.md" in run(lending)
    settings = {"default_integration": "x", "integration_settings": {"x": {"invoke_separator": "-"}}}
    (lending.repo / ".specify" / "integration.json").write_text(json.dumps(settings))
    tasks.write_text(tasks.read_text() + "- [ ] T027 Convergence\n")
    commit(lending)
    said = lending.segue("run", FEATURE, "--task", "T027").stderr
    assert "/speckit-converge" in said
    tasks.write_text(tasks.read_text() + "- [ ] T028 More\n- [ ] T029 Still more\n")
    commit(lending)
    assert "/speckit" not in lending.segue("run", FEATURE, "--task", "T028").stderr


@pytest.mark.thorough
def test_the_constitution_is_judged_when_asked(lending: Place, tmp_path: Path) -> None:
    commit(lending)
    lending.more_config('criteria = ["constitution"]\n')
    assert "criteria (from " in run(lending, code=2), "the flow execute judges nothing"
    lending.config('agent = "scripted"\ncriteria = ["constitution"]\nflow = "spec"\nchecks = ["true"]\n')
    lending.more_config('judged_by = "agent"\n')
    lending.segue("run", FEATURE, "--task", "T001", code=None)
    prompts = [text for (text,) in lending.rows("select text from orchestrator_prompts")]
    judged = next(text for text in prompts if "You judge the work" in text)
    assert (
        '"key": "Constitution III", "criterion": "The change keeps to the principle “III. Test First'
        in judged
    )
    assert "Governance" not in judged
    (lending.repo / ".specify" / "memory" / "constitution.md").write_text("# [PROJECT_NAME]\n")
    commit(lending)
    assert (
        "has no constitution with principles"
        in lending.segue(
            "run", "specs/001-lending", "--task", "T002", "--repo", str(lending.repo), code=2
        ).stderr
    )
