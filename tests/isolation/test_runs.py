"""Runs in the sandbox: what is said about it, what opens it, and how agents in it are ended and adopted."""

from __future__ import annotations

import json
import shutil
import signal
import sys

from tests.cli.place import Place, processes_with, until
from tests.isolation.agent import DOCKER, agent, ended, place
from tests.isolation.means import MOUNTER, run_by
from tests.proof.projects import needs_sandbox
from tests.shebang import shebang

__all__ = ["place"]


@needs_sandbox
def test_the_head_and_the_status_say_what_is_in_force(place: Place) -> None:
    agent(place, "")
    done = place.segue("run", "plan.md", "--task", "1")
    assert f"Agents are isolated by {MOUNTER}, standard." in done.stderr
    assert place.json("status", "last")["isolation"] == f"{MOUNTER} standard"
    assert place.events("run.started")[0]["isolation"] == f"{MOUNTER} standard"


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


def test_an_agent_may_commit_if_the_user_opens_git(place: Place) -> None:
    agent(place, "os.system('git commit --quiet --allow-empty -m own')", 'sandbox.write = [".git"]')
    place.segue("run", "plan.md", "--task", "1")
    assert "own" in place.subjects()


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
