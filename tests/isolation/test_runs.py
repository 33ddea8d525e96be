"""Runs in the sandbox: what is said about it, what opens it, and how agents in it are ended and adopted."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.cli.place import DEADLINE, PLAN, Place, processes_with, until
from tests.isolation.means import MOUNTER, each, needs, run_by
from tests.proof.projects import needs_sandbox
from tests.shebang import shebang

AGENT = """
import os, pathlib, signal, sys, time
sys.stdin.read()
{body}
pathlib.Path("work.txt").write_text("done")
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place.make(tmp_path, PLAN)
    place.use_sandbox()
    return place


def agent(place: Place, body: str, settings: str = "") -> None:
    """Make a command agent that does this before its work."""
    program = place.root / "agent.py"
    program.write_text(AGENT.format(body=body))
    argv = json.dumps([sys.executable, "-IS", str(program)])
    place.config(f'agent = "command"\n{settings}\n[agents.command]\nargv = {argv}\n')


def ended(place: Place) -> dict[str, Any]:
    """How the agent ended."""
    ((data,),) = place.rows("select data from orchestrator_events where type = 'agent.ended'")
    found: dict[str, Any] = json.loads(data)
    return found


@needs_sandbox
def test_the_head_and_the_status_say_what_is_in_force(place: Place) -> None:
    agent(place, "")
    done = place.segue("run", "plan.md", "--task", "1")
    assert f"Agents are isolated by {MOUNTER}, standard." in done.stderr
    assert place.json("status", "last")["isolation"] == f"{MOUNTER} standard"
    assert place.events("run.started")[0]["isolation"] == f"{MOUNTER} standard"


@pytest.mark.thorough
@needs("namespaces")
def test_auto_takes_namespaces_where_bubblewrap_is_missing(place: Place) -> None:
    agent(place, "")
    done = run_by("namespaces", place, "run", "plan.md", "--task", "1")
    assert "isolated by namespaces, standard." in done.stderr


@needs("landlock")
def test_auto_takes_landlock_where_namespaces_are_forbidden(place: Place) -> None:
    agent(place, "")
    done = run_by("copy", place, "run", "plan.md", "--task", "1")
    assert done.returncode == 0
    assert "isolated by landlock, standard (" in done.stderr
    assert "this machine allows no user namespaces" in done.stderr


@pytest.mark.thorough
def test_a_named_means_that_is_missing_starts_nothing(place: Place) -> None:
    agent(place, "")
    done = run_by("namespaces", place, "run", "plan.md", "--isolation", "bwrap")
    assert done.returncode == 5
    assert "bubblewrap (bwrap) is not installed" in done.stderr
    assert "apt install bubblewrap" in done.stderr
    assert not (place.repo / "work.txt").exists()


def test_a_container_without_an_image_starts_nothing(place: Place) -> None:
    agent(place, "")
    done = place.segue("run", "plan.md", "--isolation", "container", code=5)
    assert "sandbox" in done.stderr
    assert "image" in done.stderr


@pytest.mark.thorough
def test_a_closed_place_is_named_with_the_setting_that_opens_it(place: Place) -> None:
    target = place.root / "home" / "notes.txt"
    agent(place, f"pathlib.Path({str(target)!r}).write_text('x')")
    done = place.segue("run", "plan.md", "--task", "1", code=3)
    assert f'sandbox.write = ["{target}"]' in done.stderr
    target.touch()
    agent(place, f"pathlib.Path({str(target)!r}).write_text('x')", f'sandbox.write = ["{target}"]')
    place.segue("run", "plan.md", "--task", "1")
    assert target.read_text() == "x"


def test_an_agent_may_commit_if_the_user_opens_git(place: Place) -> None:
    agent(place, "os.system('git commit --quiet --allow-empty -m own')", 'sandbox.write = [".git"]')
    place.segue("run", "plan.md", "--task", "1")
    assert "own" in place.subjects()


@pytest.mark.quick("namespaces", "landlock")
@pytest.mark.parametrize("isolation", each("bwrap", "namespaces", "landlock"))
def test_an_agent_is_asked_to_end_before_it_is_killed(place: Place, isolation: str) -> None:
    body = (
        "def note(number, _):\n"
        "    pathlib.Path('asked.txt').write_text(str(number))\n"
        "    sys.exit(0)\n"
        "signal.signal(signal.SIGINT, note)\n"
        "pathlib.Path('ready.txt').touch()\n"
        # A signal just before one long sleep would be noticed only after it.
        "while True: time.sleep(0.05)"
    )
    agent(place, body, f"limits.kill_grace = {DEADLINE}")
    process = place.start("run", "plan.md", "--task", "1", "--isolation", isolation)
    until((place.repo / "ready.txt").exists, "the agent works")
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE) == 130
    assert (place.repo / "asked.txt").read_text() == str(int(signal.SIGINT))


def test_a_signal_that_ends_the_agent_is_recorded(place: Place) -> None:
    agent(place, "os.kill(os.getpid(), signal.SIGKILL)")
    place.segue("run", "plan.md", "--task", "1", code=3)
    assert ended(place)["facts"]["signal"] == signal.SIGKILL


def test_an_agent_in_the_sandbox_is_adopted(place: Place) -> None:
    body = "open('starts.txt', 'a').write('x')\nwhile not os.path.exists('go'): time.sleep(0.05)"
    agent(place, body)
    first = place.start("run", "plan.md", "--task", "1")
    until((place.repo / "starts.txt").exists, "the agent works")
    first.kill()
    first.wait()
    (place.repo / "go").touch()
    place.segue("resume", "last")
    assert (place.repo / "starts.txt").read_text() == "x"
    assert ended(place)["facts"]["adopted"] is True
    assert not list(processes_with(str(place.root / "agent.py")))


DOCKER = """
import json, subprocess, sys
arguments = sys.argv[1:]
open({log!r}, "a").write(json.dumps(arguments) + "\\n")
if arguments[0] == "run":
    at = arguments.index("image:1")
    sys.exit(subprocess.call([{python!r}, *arguments[at + 2:]]))
"""


def test_a_container_gets_the_work_tree_and_nothing_secret(place: Place) -> None:
    log, runtime = place.root / "docker.log", place.root / "docker"
    runtime.write_text(f"{shebang()}\n{DOCKER.format(log=str(log), python=sys.executable)}")
    runtime.chmod(0o755)
    table = f'sandbox = {{ runtime = "{runtime}", image = "image:1", read = ["{place.root}/agent.py"] }}\n'
    agent(place, "", table)
    place.segue("run", "plan.md", "--task", "1", "--isolation", "container", SECRET_KEY="hush-hush-1")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line[0] for line in lines] == ["image", "run", "rm"]
    started = lines[1]
    volumes = [started[at + 1] for at, word in enumerate(started) if word == "--volume"]
    assert f"{place.repo}:{place.repo}:rw" in volumes
    assert f"{place.repo}/.git:{place.repo}/.git:ro" in volumes
    assert started[started.index("--name") + 1] == lines[2][-1]
    assert started[started.index("image:1") + 1] == "python3"
    assert "hush-hush-1" not in log.read_text()
    assert shutil.which("docker") != str(runtime)


@pytest.mark.quick("namespaces standard", "landlock strict")
@pytest.mark.parametrize("sandbox", each("bwrap standard", "namespaces standard", "landlock strict"))
def test_segues_own_secrets_are_hidden_also_when_its_state_is_elsewhere(place: Place, sandbox: str) -> None:
    means, strength = sandbox.split()
    token = Path(place.env["XDG_STATE_HOME"]) / "segue" / "private" / "page" / "token"
    token.parent.mkdir(parents=True)
    token.write_text("a token of the page")
    body = """
try:
    found = pathlib.Path("{token}").read_text()
except OSError as error:
    found = type(error).__name__
pathlib.Path("found.txt").write_text(found)
"""
    agent(place, body.replace("{token}", str(token)))
    place.env |= {"SEGUE_STATE_DIR": str(place.root / "elsewhere"), "SEGUE_SANDBOX__STRENGTH": strength}
    place.segue("run", "plan.md", "--task", "1", "--isolation", means)
    assert (place.repo / "found.txt").read_text() in ("FileNotFoundError", "PermissionError")


@needs_sandbox
@pytest.mark.thorough
def test_temporary_files_are_its_own_whatever_the_machine_has(place: Place) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="claude-") as own,
        tempfile.TemporaryDirectory(prefix="data-") as data,
    ):
        (Path(data) / "input").write_text("seen")
        body = f"""
import tempfile
os.makedirs("{own}", exist_ok=True)
pathlib.Path("{own}", "scratch").write_text("x")
(pathlib.Path(tempfile.gettempdir()) / "{Path(data).name}").mkdir()
pathlib.Path("seen.txt").write_text(pathlib.Path("{data}", "input").read_text())
"""
        agent(place, body)
        place.segue("run", "plan.md", "--task", "1", "--isolation", MOUNTER)
        assert (place.repo / "seen.txt").read_text() == "seen"
        assert not list(Path(own).iterdir())
