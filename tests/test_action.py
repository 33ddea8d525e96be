"""The GitHub Action, and the jobs that the documentation shows: read, and run as a runner would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import pytest
import yaml  # type: ignore[import-untyped]

from tests.cli.parsing import parse
from tests.cli.place import DEADLINE, Place
from tests.test_docs import simple_commands

ROOT = Path(__file__).parents[1]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
PAGE = (ROOT / "docs" / "guides" / "ci.md").read_text("utf-8")
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
WORK = '[[on]]\nphase = "execute"\nwrite = { "f{task}" = "the work of {task}" }\n'
STUCK = '[[on]]\ntask = "2"\nsay = "I could not do it."\n' + WORK
_EXPRESSION = re.compile(r"\$\{\{ *([\w.-]+) *\}\}")


class Runner:
    """Runs the shell steps of the action, with the variables of GitHub's runner."""

    def __init__(self, place: Place, **inputs: str) -> None:
        self.place = place
        self.temp = place.root / "runner temp"
        self.temp.mkdir()
        self.inputs = {name: str(value.get("default", "")) for name, value in ACTION["inputs"].items()}
        self.inputs |= {name.replace("_", "-"): value for name, value in inputs.items()}
        self.outputs: dict[str, dict[str, str]] = {}
        self.codes: dict[str, int] = {}
        self.said = ""

    @property
    def summary(self) -> Path:
        return self.temp / "summary.md"

    def run(self) -> None:
        for step in STEPS:
            if "run" in step and (not any(self.codes.values()) or "always()" in step.get("if", "")):
                self._run_step(step)

    def _run_step(self, step: dict[str, Any]) -> None:
        output = self.temp / f"output-{step['id']}"
        output.touch()
        env = {
            **self.place.env,
            **{name: self._resolve(value) for name, value in step.get("env", {}).items()},
            "RUNNER_TEMP": str(self.temp),
            "GITHUB_ACTION_PATH": str(ROOT),
            "GITHUB_OUTPUT": str(output),
            "GITHUB_STEP_SUMMARY": str(self.summary),
        }
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.place.repo / self._resolve(step.get("working-directory", ".")),
            env=env,
            capture_output=True,
            text=True,
            timeout=DEADLINE,
        )
        self.said += done.stdout + done.stderr
        self.codes[step["id"]] = done.returncode
        self.outputs[step["id"]] = dict(line.split("=", 1) for line in output.read_text().splitlines())

    def _resolve(self, text: str) -> str:
        def value(match: re.Match[str]) -> str:
            match match[1].split("."):
                case ["inputs", name]:
                    return self.inputs[name]
                case ["steps", step, "outputs", name]:
                    return self.outputs[step].get(name, "")
            raise AssertionError(match[1])

        return _EXPRESSION.sub(value, text)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place.make(tmp_path)
    del place.env["SEGUE_TRUST"]
    command = tmp_path / "segue"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m segue "$@"\n')
    command.chmod(0o755)
    return place


def installed(place: Place) -> str:
    return str(place.root / "segue")


def test_no_input_becomes_part_of_a_script() -> None:
    for step in STEPS:
        assert "${{" not in step.get("run", ""), (
            "expressions in a script are replaced before the shell reads it"
        )
        assert "shell" in step or "uses" in step


def test_every_input_and_output_is_used_and_explained() -> None:
    used = re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text("utf-8"))
    assert set(used) == set(ACTION["inputs"])
    for name in (*ACTION["inputs"], *ACTION["outputs"]):
        assert f"`{name}`" in PAGE


@pytest.mark.thorough
def test_a_job_that_works(place: Place) -> None:
    place.script(WORK)
    runner = Runner(
        place, source="plan.md", agent="scripted", trust="true", args="--task\n1\n", command=installed(place)
    )
    runner.run()
    assert runner.codes == {"install": 0, "run": 0, "proof": 0}, runner.said
    assert runner.outputs["run"]["exit-code"] == "0"
    assert runner.outputs["proof"]["run"].startswith("20")
    folder = Path(runner.outputs["proof"]["folder"])
    assert sorted(path.name for path in folder.iterdir()) == ["proof.json", "proof.md", "segue.xml"]
    assert Xml.parse(folder / "segue.xml").getroot().attrib["tests"] == "1"
    assert runner.summary.read_text().startswith("## Segue: done")
    assert place.subjects() == ["Task 1: Write one."]
    assert not place.database.exists(), "state is kept in the runner's folder"


@pytest.mark.thorough
def test_a_job_that_needs_a_person_fails_with_its_proof(place: Place) -> None:
    place.script(STUCK)
    runner = Runner(place, source="plan.md", trust="true", command=installed(place))
    runner.run()
    assert (runner.codes["run"], runner.outputs["run"]["exit-code"]) == (3, "3")
    assert 'failures="1"' in Path(runner.outputs["proof"]["folder"], "segue.xml").read_text()
    assert "needs human" in runner.summary.read_text()


def test_settings_are_not_trusted_unless_the_workflow_says_so(place: Place) -> None:
    place.script(WORK)
    place.more_config('checks = [["touch", "ran"]]\n')
    runner = Runner(place, source="plan.md", command=installed(place))
    runner.run()
    assert runner.codes == {"install": 0, "run": 2, "proof": 0}, runner.said
    assert "segue trust" in runner.said
    assert "No run was started" in runner.said
    assert not list(place.repo.rglob("ran"))


@pytest.mark.quick("args")
@pytest.mark.parametrize("name", ["source", "agent", "args", "state_dir"])
def test_inputs_are_never_run(place: Place, name: str) -> None:
    place.script(WORK)
    hostile = f'$(touch {place.root}/ran) `touch {place.root}/ran` "; touch {place.root}/ran; #'
    runner = Runner(place, **{"source": "plan.md", "command": installed(place), name: hostile})
    runner.run()
    assert not (place.root / "ran").exists()


def test_this_version_is_installed_with_its_extras(place: Place) -> None:
    """A stand-in for Python writes down how it is called, and makes what `venv` would."""
    log, bin_folder = place.root / "called", place.root / "bin"
    bin_folder.mkdir()
    python = bin_folder / "python3"
    copies = f'mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; cp {installed(place)} "$3/bin/segue"'
    python.write_text(f'#!/bin/sh\nprintf "%s\\n" "$*" >> {log}\n[ "$2" != venv ] || {{ {copies}; }}\n')
    python.chmod(0o755)
    place.env["PATH"] = f"{bin_folder}{os.pathsep}{place.env['PATH']}"
    runner = Runner(place, extras="postgres,mcp")
    runner._run_step(STEPS[0])
    assert runner.codes == {"install": 0}, runner.said
    venv = runner.temp / "segue-venv"
    made, *installs = [line for line in log.read_text().splitlines() if line.startswith("-m ")]
    assert made == f"-m venv {venv}"
    locks = [
        f"--require-hashes -r {ROOT}/requirements/{name}.txt"
        for name in ("core", "extras/postgres", "extras/mcp")
    ]
    common = "-m pip install --quiet --disable-pip-version-check --no-deps"
    assert installs == [f"{common} {what}" for what in (*locks, f"--no-build-isolation {ROOT}")]
    assert runner.outputs["install"]["command"] == f"{venv}/bin/segue"
    runner.inputs["extras"] = "x] evil"
    runner._run_step(STEPS[0])
    assert runner.codes == {"install": 2}


def shown(kind: str) -> list[dict[str, Any]]:
    """The YAML that the page shows, of GitHub or of GitLab."""
    return [yaml.safe_load(text) for text in re.findall(rf"```yaml {kind}\n(.*?)```", PAGE, re.DOTALL)]


def test_the_workflows_on_the_page_use_the_action_as_it_is() -> None:
    workflows = shown("github")
    assert workflows
    for workflow in workflows:
        for job in workflow["jobs"].values():
            for step in job["steps"]:
                if "segue@" in step.get("uses", ""):
                    assert set(step.get("with", {})) <= set(ACTION["inputs"])
                assert "${{" not in step.get("run", "")


def test_the_jobs_of_gitlab_on_the_page_can_be_typed() -> None:
    jobs = [job for page in shown("gitlab") for job in page.values()]
    assert jobs
    for job in jobs:
        lines = [line for name in ("script", "after_script") for line in job.get(name, ())]
        calls = [call for line in lines for call in simple_commands(line)]
        assert calls
        for call in calls:
            parse(call)


def test_every_action_is_named_by_its_commit() -> None:
    """A tag may be moved to what nobody here has looked at. Segue's own has no commit to name yet."""
    files = [ROOT / "action.yml", *ROOT.glob(".github/**/*.yml"), *ROOT.glob("docs/**/*.md")]
    used = [
        line
        for file in files
        for line in re.findall(r"^[ -]*uses: (.+)$", file.read_text("utf-8"), re.MULTILINE)
    ]
    assert len(used) >= 12
    for line in used:
        assert line.startswith("OWNER/segue@") or re.fullmatch(
            r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line
        ), line


def test_every_install_is_by_hash() -> None:
    """Workflows, the action and the container file install nothing whose hash is not locked."""
    files = [ROOT / "action.yml", *ROOT.glob(".github/**/*.yml"), ROOT / "docs" / "fleet" / "Containerfile"]
    for file in files:
        for line in re.findall(r"pip install .+", file.read_text("utf-8")):
            assert "--require-hashes -r requirements/" in line or "--no-deps --no-build-isolation" in line, (
                line
            )
