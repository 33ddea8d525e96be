"""Segue as a step of Spec Kit's own workflow engine, with the real `specify`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.place import Place
from tests.e2e.install import HERE
from tests.sources.features import example

pytestmark = pytest.mark.thorough  # installing it takes a minute
VERSION = "1.2.3"
WORKFLOW = ".specify/workflows/segue/workflow.yml"


@pytest.fixture(scope="session")
def specify() -> Path:
    """Return the folder of the real `specify`, which is installed from the package registry."""
    home = HERE / f"specify-{VERSION}"
    program = home / "bin" / "specify"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        pip = [str(home / "bin" / "pip"), "install", "--quiet", f"specify-cli=={VERSION}"]
        done = subprocess.run(pip, capture_output=True, text=True)
        if done.returncode != 0:
            pytest.skip(f"specify cannot be installed: {done.stderr.strip()[-200:]}")
    return program.parent


@pytest.fixture
def project(tmp_path: Path, specify: Path) -> Place:
    """A project that the real `specify` has set up, with a feature of two open tasks."""
    place = Place.make(tmp_path)
    example(place.repo)
    tasks = place.repo / "specs" / "001-lending" / "tasks.md"
    text = tasks.read_text().replace("- [ ] T0", "- [x] T0")
    tasks.write_text(text.replace("[x] T001", "[ ] T001").replace("[x] T002", "[ ] T002"))
    segue = Path(sys.executable).parent
    place.env["PATH"] = os.pathsep.join([str(segue), str(specify), place.env["PATH"]])
    options = ("--here", "--force", "--integration", "claude", "--script", "sh", "--ignore-agent-tools")
    done = call(place, "init", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    place.git("add", "--all")
    place.git("commit", "--quiet", "-m", "project")
    place.script("[[on]]\n")
    place.more_config('flow = "execute"\n')
    return place


def call(place: Place, *arguments: str) -> subprocess.CompletedProcess[str]:
    argv = ["specify", *arguments]
    return subprocess.run(argv, cwd=place.repo, env=place.env, capture_output=True, text=True)


def workflow(place: Place, *arguments: str) -> dict[str, Any]:
    done = call(place, "workflow", *arguments, "--json")
    data: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (0 if data["status"] == "completed" else 1)
    return data


def test_a_workflow_runs_segue_and_resumes_it_after_a_failure(project: Place) -> None:
    script = project.root / "script.toml"
    first = "[[on]]\ntask = 'T001'\nwrite = { one = 'x' }\n"
    script.write_text(f"{first}[[on]]\nexit_code = 3\n")
    ended = workflow(project, "run", WORKFLOW, "--input", "agent=scripted")
    assert (ended["status"], ended["current_step_id"]) == ("failed", "implement")
    script.write_text(f"{first}[[on]]\nwrite = {{ two = 'x' }}\n")
    assert workflow(project, "resume", ended["run_id"])["status"] == "completed"
    subjects = project.subjects()[1:]
    assert [subject.split(":")[0] for subject in subjects] == ["Task T001", "Task T002"]
    assert "workflows/runs" not in project.git("log", "--stat")
    assert (project.repo / ".specify" / "workflows" / "runs" / ended["run_id"]).is_dir()
