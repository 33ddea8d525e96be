"""`segue doctor`: whether a run could start here, and the one command to type next, which then works."""

from __future__ import annotations

import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.place import PLAN, Place, until
from tests.cli.test_first_run import answer, install
from tests.cli.test_spec import SPEC, TASKS
from tests.web.place import serving


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A repository with a plan, no settings, and no agent on the PATH."""
    place = Place.make(tmp_path)
    install(place)
    return place


def examine(place: Place, code: int) -> dict[str, Any]:
    """The answer of the doctor, which must be the same in JSON and on the terminal."""
    found: dict[str, Any] = place.json("doctor", code=code)
    assert found["exit_code"] == code
    assert found["ready"] is (code == 0)
    last = place.segue("doctor", code=code).stdout.splitlines()[-1]
    assert last == found["verdict"].replace(f"{place.env['HOME']}/", "~/")
    return found


def type_in(place: Place, command: str) -> None:
    """Type a command of git or the like in a shell, in the repository."""
    subprocess.run(command, shell=True, cwd=place.repo, env=place.env, check=True, capture_output=True)


def _closed_port() -> int:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port


def type_segue(place: Place, command: str, code: int = 0) -> str:
    words = command.split()
    assert words[0] == "segue"
    return place.segue(*words[1:], code=code).stdout


def test_an_agent_and_a_plan_are_ready(place: Place) -> None:
    install(place, "claude")
    found = examine(place, 0)
    assert found["verdict"] == "Ready: segue run plan.md --yes"
    type_segue(place, found["next"])
    assert len(place.subjects()) == 3
    done = examine(place, 0)
    assert done["verdict"] == "Ready: every task of plan.md is done. Next: segue status"
    assert "plan.md" in type_segue(place, done["next"])
    (place.root / "bin" / "claude").unlink()
    assert "no agent is installed" in examine(place, 5)["verdict"], "another run could not start"


@pytest.mark.thorough
def test_what_the_settings_name_need_not_be_typed(place: Place) -> None:
    install(place, "claude")
    (place.repo / "segue.toml").write_text('agent = "claude"\nsource = "plan.md"\nchecks = ["true"]\n')
    found = examine(place, 0)
    assert found["next"] == "segue run"
    type_segue(place, found["next"])


@pytest.mark.thorough
def test_the_command_leads_here_from_elsewhere(place: Place) -> None:
    install(place, "claude")
    done = place.segue("doctor", "--repo", str(place.repo))
    assert done.stdout.splitlines()[-1] == "Ready: segue run plan.md --yes"
    other = Place(place.root, place.env)
    (place.root / "elsewhere").mkdir()
    done = subprocess.run(
        other.command("doctor", "--repo", "../repo"),
        cwd=place.root / "elsewhere",
        env=place.env,
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines()[-1] == "Ready: segue run ../repo/plan.md --repo ../repo --yes"


@pytest.mark.thorough
def test_without_an_agent_it_names_how_to_install_one_here(place: Place) -> None:
    found = examine(place, 5)
    assert found["verdict"] == "Not ready: no agent is installed. Next: segue help agents"
    assert "claude" in type_segue(place, found["next"])
    (place.root / "bin" / "npm").symlink_to("true")
    found = examine(place, 5)
    assert found["next"] == "npm install -g @anthropic-ai/claude-code"
    place.segue("run", "--yes", code=5)


def test_missing_agents_are_one_line(place: Place) -> None:
    lines = place.segue("doctor", code=5).stdout.splitlines()
    [line] = [line for line in lines if "codex" in line]
    assert line.startswith("Not installed: claude, codex, ")
    assert "; without a key: " in line
    assert line.endswith("(segue doctor --agents for details)")
    assert len(lines) < 30
    details = place.segue("doctor", "--agents", code=5).stdout
    assert "npm install -g @openai/codex" in details
    assert "plans, judges, continues a conversation" in details
    assert "no effect" in place.segue("doctor", "--agents", "--json", code=2).stderr


def test_an_agent_that_is_not_logged_in_says_how(place: Place) -> None:
    install(place, "claude", logged_in=False)
    found = examine(place, 4)
    assert found["verdict"].startswith("Not ready: no agent is logged in. Next: claude ")
    assert "`" not in found["next"]
    [agent] = [one for one in found["checks"] if one["what"] == "agent claude"]
    assert agent["detail"].startswith("Claude Code is not logged in.")
    place.segue("run", "--yes", code=4)


@pytest.mark.thorough
def test_a_chosen_agent_that_is_missing_is_named(place: Place) -> None:
    install(place, "claude")
    (place.repo / "segue.toml").write_text('agent = "codex"\n')
    found = examine(place, 5)
    assert "Codex (codex) was not found" in found["verdict"]
    place.segue("run", "plan.md", code=5)


@pytest.mark.thorough
def test_a_fallback_that_is_ready_is_enough(place: Place) -> None:
    install(place, "claude")
    (place.repo / "segue.toml").write_text('agent = "codex,claude"\n')
    assert examine(place, 0)["next"] == "segue run plan.md"
    type_segue(place, "segue run plan.md")


@pytest.mark.thorough
def test_of_several_plans_one_is_named_and_the_others_are_told(place: Place) -> None:
    install(place, "claude")
    (place.repo / "later.md").write_text(PLAN)
    place.git("add", "--all")
    place.git("commit", "-qm", "another plan")
    found = examine(place, 0)
    assert found["next"] == "segue run later.md --yes"
    [tasks] = [one for one in found["checks"] if one["what"] == "tasks"]
    assert tasks["detail"] == "later.md: 3 tasks, 3 to do; also here: plan.md"
    type_segue(place, found["next"])
    assert examine(place, 0)["next"] == "segue run plan.md --yes"


@pytest.mark.thorough
def test_a_feature_of_spec_kit_is_found(place: Place) -> None:
    install(place, "claude")
    (place.repo / "plan.md").unlink()
    feature = place.repo / "specs" / "001-greet"
    feature.mkdir(parents=True)
    (feature / "spec.md").write_text(SPEC)
    (feature / "tasks.md").write_text(TASKS)
    (place.repo / ".specify").mkdir()
    (place.repo / ".specify" / "kept").write_text("")
    place.git("add", "--all")
    place.git("commit", "-qm", "feature")
    before = (feature / "tasks.md").stat().st_mtime_ns
    found = examine(place, 0)
    assert found["next"] == "segue run specs/001-greet --yes"
    assert (feature / "tasks.md").stat().st_mtime_ns == before
    started = type_segue(place, found["next"], code=3)
    assert "T001" in started, "it started; the stand-in's work does not satisfy its judge"


@pytest.mark.thorough
def test_without_tasks_it_says_how_to_write_them(place: Place) -> None:
    install(place, "claude")
    place.git("rm", "-q", "plan.md")
    place.git("commit", "-qm", "no plan")
    found = examine(place, 2)
    assert found["verdict"].endswith("Next: segue help tasks")
    assert "## Task 1" in type_segue(place, found["next"])
    place.segue("run", "--yes", code=2)


@pytest.mark.thorough
def test_no_repository_then_no_commit_then_ready(place: Place) -> None:
    """Each command is typed as it is printed, until a run can start: also where git knows nobody."""
    install(place, "claude")
    shutil.rmtree(place.repo / ".git")
    found = examine(place, 2)
    assert found["next"] == f"git init {place.repo}"
    type_in(place, found["next"])
    found = examine(place, 2)
    assert "git does not know who commits" in found["verdict"]
    type_in(place, found["next"])
    found = examine(place, 2)
    assert found["next"].startswith("git add --all && git commit")
    type_in(place, found["next"])
    found = examine(place, 0)
    type_segue(place, found["next"])


@pytest.mark.thorough
def test_an_identity_is_not_needed_for_a_run(place: Place) -> None:
    install(place, "claude")
    place.git("config", "--unset", "user.name")
    place.git("config", "--unset", "user.email")
    found = examine(place, 0)
    [identity] = [one for one in found["checks"] if one["what"] == "git identity"]
    assert (identity["ok"], identity["needed"]) == (False, False)
    assert "user.email" in identity["fix"]
    type_segue(place, found["next"])


@pytest.mark.thorough
def test_uncommitted_work_is_committed_first(place: Place) -> None:
    install(place, "claude")
    (place.repo / "loose").write_text("x")
    found = examine(place, 2)
    assert "uncommitted changes: loose" in found["verdict"]
    place.segue("run", "--yes", code=2)
    type_in(place, found["next"])
    assert examine(place, 0)["ready"]
    (place.repo / "loose").write_text("y")
    place.env["SEGUE_ALLOW_DIRTY"] = "true"
    assert examine(place, 0)["ready"]


@pytest.mark.thorough
def test_settings_that_nobody_trusts_come_first(place: Place) -> None:
    install(place, "claude")
    del place.env["SEGUE_TRUST"]
    (place.repo / "segue.toml").write_text('checks = ["true"]\n')
    found = examine(place, 2)
    assert found["next"] == f"segue trust --repo {place.repo}"
    words = tuple(found["next"].split()[1:])
    answer(place, (b"Allow this", b"y"), args=words)
    assert examine(place, 0)["ready"]


def test_a_check_without_its_program_is_named(place: Place) -> None:
    install(place, "claude")
    (place.repo / "segue.toml").write_text('agent = "claude"\nchecks = ["no-such-check -q"]\n')
    found = examine(place, 5)
    assert "no-such-check was not found" in found["verdict"]
    assert found["next"].startswith("Install no-such-check")
    place.segue("run", "plan.md", code=5)


@pytest.mark.thorough
def test_git_that_is_missing_is_named(place: Place) -> None:
    install(place, "claude")
    (place.root / "bin" / "git").unlink()
    found = examine(place, 5)
    assert found["verdict"].startswith("Not ready: git cannot be found")
    assert found["next"] == "Install git: https://git-scm.com/downloads"


def test_a_database_that_does_not_answer_is_named(place: Place) -> None:
    install(place, "claude")
    place.env["SEGUE_DATABASE_URL"] = f"postgresql://u:secret-word@127.0.0.1:{_closed_port()}/x"
    found = place.json("doctor", code=1)
    assert found["verdict"].startswith("Not ready: ")
    assert "127.0.0.1" in found["verdict"]
    assert "secret-word" not in str(found)


@pytest.mark.thorough
def test_bubblewrap_is_no_condition(place: Place) -> None:
    install(place, "claude")
    (place.root / "bin" / "bwrap").unlink(missing_ok=True)
    found = examine(place, 0)
    [bwrap] = [one for one in found["checks"] if one["what"] == "sandbox bwrap"]
    assert (bwrap["ok"], bwrap["needed"]) == (False, False)
    output = place.segue("doctor").stdout
    assert output.count(bwrap["fix"]) == 1, "each fix is named once"


@pytest.mark.thorough
def test_another_run_is_named(place: Place) -> None:
    install(place, "claude")
    place.script('[[on]]\nwait_for = "GATE"\n')
    process = place.start("run", "plan.md")
    try:
        until(lambda: place.jobs_at_work(), "the agent")
        found = examine(place, 6)
        assert "works in this repository" in found["verdict"]
    finally:
        place.gate.touch()
        process.wait(place.patience)


def test_looking_leaves_nothing_behind(place: Place) -> None:
    install(place)
    examine(place, 5)
    assert not place.database.exists()
    assert place.git("status", "--porcelain") == ""


@pytest.mark.quick("agents1")
@pytest.mark.parametrize("agents", [(), ("claude",)])
def test_the_page_says_the_same(place: Place, agents: tuple[str, ...]) -> None:
    install(place, *agents)
    found = place.json("doctor", code=0 if agents else 5)
    with serving(place) as served:
        shown = served.data("/doctor.json")
        assert {name: shown[name] for name in ("ready", "verdict", "next", "exit_code")} == {
            name: found[name] for name in ("ready", "verdict", "next", "exit_code")
        }
        assert found["verdict"] in served.get("/doctor").text
        assert "Everything runs need works" not in served.get("/doctor").text
        assert "Not installed: " in served.get("/doctor").text
