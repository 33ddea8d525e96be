"""The files in docs/fleet start workers: what they name exists, and none has more rights than it needs."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from segue.parts.fleet.options import WorkerSettings
from segue.parts.fleet.seats import PATIENCE
from tests.cli.parsing import parse

FOLDER = Path(__file__).parents[1] / "docs" / "fleet"
UNIT, CONTAINER, MANIFEST = (
    FOLDER / name for name in ("segue-worker.service", "Containerfile", "worker.yaml")
)


def unit() -> dict[str, dict[str, list[str]]]:
    """The sections of the unit; a setting may be given several times."""
    found: dict[str, dict[str, list[str]]] = {}
    for line in UNIT.read_text().splitlines():
        if line.startswith("["):
            section = found.setdefault(line.strip("[]"), {})
        elif "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            section.setdefault(name, []).append(value)
    return found


def instructions() -> list[list[str]]:
    """The lines of the container file, each with its instruction first."""
    lines = [line for line in CONTAINER.read_text().splitlines() if line and not line.startswith("#")]
    return [line.split(maxsplit=1) for line in "\n".join(lines).replace("\\\n", " ").splitlines()]


def pod() -> dict[str, Any]:
    deployment = yaml.safe_load(MANIFEST.read_text())
    assert (deployment["apiVersion"], deployment["kind"]) == ("apps/v1", "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == labels
    found: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return found


def arguments() -> list[list[str]]:
    """What each file, and the comments in it, give to `segue worker`."""
    (start,) = unit()["Service"]["ExecStart"]
    entry = next(rest for name, rest in instructions() if name == "ENTRYPOINT")
    assert yaml.safe_load(entry) == ["tini", "--", "segue", "worker"]
    program, command, *given = shlex.split(start)
    assert (Path(program).name, command) == ("segue", "worker")
    (example,) = re.findall(r"segue-worker (--.*)$", CONTAINER.read_text(), re.MULTILINE)
    return [given, pod()["containers"][0]["args"], shlex.split(example)]


@pytest.mark.parametrize("number", range(3))
def test_the_command_line_is_understood(number: int) -> None:
    parse(["segue", "worker", *arguments()[number]])


def test_the_image_has_a_sandbox_and_locked_packages() -> None:
    text = CONTAINER.read_text()
    assert " bubblewrap " in text
    assert "packaging/install.sh python fleet" in text


def test_variables_name_settings_that_exist() -> None:
    text = "".join(path.read_text() for path in (UNIT, CONTAINER, MANIFEST))
    named = {name.lower() for name in re.findall(r"SEGUE_WORKER__(\w+)", text)}
    assert named == {"hold", "allow_repos"}
    assert named <= set(WorkerSettings.__struct_fields__)


def test_agents_outlive_the_worker_only_where_the_machine_does() -> None:
    """A unit leaves them alone; a container takes them along, so their runs must go back to the queue."""
    assert unit()["Service"]["KillMode"] == ["process"]
    assert "HOLD" not in UNIT.read_text()
    assert ["ENV", "SEGUE_WORKER__HOLD=0"] in instructions()
    assert {"name": "SEGUE_WORKER__HOLD", "value": "0"} in pod()["containers"][0]["env"]


def test_there_is_time_to_give_runs_back() -> None:
    assert int(unit()["Service"]["TimeoutStopSec"][0]) > PATIENCE
    assert pod()["terminationGracePeriodSeconds"] > PATIENCE


def test_workers_have_no_privileges_and_no_keys_in_files() -> None:
    (container,) = pod()["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod()["securityContext"]["runAsNonRoot"]
    assert pod()["automountServiceAccountToken"] is False
    assert ["USER", str(pod()["securityContext"]["runAsUser"])] in instructions()
    assert [item["name"] for item in container["env"]] == [
        "HOME",
        "SEGUE_WORKER__HOLD",
        "SEGUE_WORKER__ALLOW_REPOS",
    ]
    assert container["envFrom"] == [{"secretRef": {"name": "segue-worker"}}]
    mounted = {mount["name"] for mount in container["volumeMounts"]}
    assert mounted == {volume["name"] for volume in pod()["volumes"]}
    service = unit()["Service"]
    assert service["User"] == ["segue"]
    assert service["NoNewPrivileges"] == ["yes"]
    assert service["Restart"] == ["always"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace("/opt/segue/bin/segue", f'"{sys.executable}"'))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(copy)], capture_output=True, text=True, check=False
    )
    assert [line for line in done.stderr.splitlines() if UNIT.name in line] == []
