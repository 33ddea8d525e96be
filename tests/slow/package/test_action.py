"""The GitHub Action, and the jobs that the documentation shows: read, and run as a runner would."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from tests.cli.place import DEADLINE, Place

ROOT = Path(__file__).parents[3]
ACTION: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
PAGE = (ROOT / "docs" / "guides" / "ci.md").read_text("utf-8")
STEPS: list[dict[str, Any]] = ACTION["runs"]["steps"]
WORK = '[[on]]\nphase = "execute"\nwrite = { "f{task}" = "the work of {task}" }\n'
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
    assert sorted(path.name for path in folder.iterdir()) == ["proof.json", "proof.md"]
    assert runner.summary.read_text() == (folder / "proof.md").read_text()
    assert place.subjects() == ["Task 1: Write one."]
    assert not place.database.exists(), "state is kept in the runner's folder"


def test_settings_are_not_trusted_unless_the_workflow_says_so(place: Place) -> None:
    place.script(WORK)
    place.more_config('checks = [["touch", "ran"]]\n')
    runner = Runner(place, source="plan.md", command=installed(place))
    runner.run()
    assert runner.codes == {"install": 0, "run": 2, "proof": 0}, runner.said
    assert "segue trust" in runner.said
    assert "No run was started" in runner.said
    assert not list(place.repo.rglob("ran"))


def test_inputs_are_never_run(place: Place) -> None:
    place.script(WORK)
    hostile = f'$(touch {place.root}/ran) `touch {place.root}/ran` "; touch {place.root}/ran; #'
    runner = Runner(place, **{"source": "plan.md", "command": installed(place), "args": hostile})
    runner.run()
    assert not (place.root / "ran").exists()


def test_extras_are_names_and_nothing_else(place: Place) -> None:
    runner = Runner(place, extras="x] evil")
    runner._run_step(STEPS[0])
    assert runner.codes == {"install": 2}


def test_every_action_is_named_by_its_commit() -> None:
    """A tag may be moved to what nobody here has looked at. Segue's own has no commit to name yet."""
    files = [ROOT / "action.yml", *ROOT.glob(".github/**/*.yml"), *ROOT.glob("docs/**/*.md")]
    used = [
        line
        for file in files
        for line in re.findall(r"^[ -]*uses: (.+)$", file.read_text("utf-8"), re.MULTILINE)
    ]
    assert used
    for line in used:
        assert line.startswith("OWNER/segue@") or re.fullmatch(
            r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line
        ), line


def test_every_install_is_by_hash() -> None:
    """Workflows and the action install nothing whose hash is not locked."""
    files = [ROOT / "action.yml", *ROOT.glob(".github/**/*.yml")]
    for file in files:
        for line in re.findall(r"pip install .+", file.read_text("utf-8")):
            assert "--require-hashes -r requirements/" in line or "--no-deps --no-build-isolation" in line, (
                line
            )
