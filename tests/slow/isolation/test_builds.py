"""Ordinary builds work in the sandbox, without network: caches are writable and toolchains are found."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from segue.system.isolation.isolate import Isolation, SandboxOptions
from segue.system.isolation.places import is_temporary
from segue.system.isolation.policy import Strength
from segue.system.process.capture import child_environment
from tests.isolation.means import each
from tests.slow.proof.test_cargo import missing_cargo

PACKAGE = '{"name": "thing", "version": "1.0.0", "scripts": {"test": "node -e \\"require(\'helper\')\\""}}'
PROJECTS: dict[str, tuple[Mapping[str, str], list[list[str]]]] = {
    "npm": (
        {
            "package.json": PACKAGE,
            "helper/package.json": '{"name": "helper", "version": "1.0.0"}',
            "helper/index.js": "module.exports = 1",
        },
        [["npm", "install", "--offline", "--no-audit", "--no-fund", "./helper"], ["npm", "test"]],
    ),
    "cargo": (
        {"Cargo.toml": '[package]\nname = "thing"\nversion = "0.1.0"\n', "src/main.rs": "fn main() {}\n"},
        [["cargo", "build", "--offline"], ["target/debug/thing"]],
    ),
    "go": (
        {"go.mod": "module thing\n\ngo 1.18\n", "main.go": "package main\n\nfunc main() {}\n"},
        [["go", "build", "-o", "thing"], ["./thing"]],
    ),
    "python3": (
        {"thing.py": "import tempfile\nprint(tempfile.mkdtemp())\n"},
        [[sys.executable, "-m", "venv", "--without-pip", "env"], ["env/bin/python", "thing.py"]],
    ),
    "sh": ({}, [["sh", "-c", "echo x > /tmp/hard-coded && cat /tmp/hard-coded && ps > /dev/null"]]),
}


@pytest.mark.parametrize("strength", Strength)
@pytest.mark.parametrize("isolation", each("bwrap", "landlock"))
@pytest.mark.parametrize("tool", PROJECTS)
def test_a_build_works(tmp_path: Path, tool: str, isolation: str, strength: Strength) -> None:
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    if tool == "cargo" and (missing := missing_cargo()):
        pytest.skip(missing)
    if (tool, isolation, strength) == ("sh", "landlock", Strength.STRICT):
        pytest.skip("Landlock cannot replace /tmp, and strict does not open the machine's")
    if (tool, isolation) == ("sh", "landlock") and is_temporary(Path(sys.prefix)):
        pytest.skip("Landlock cannot open /tmp without Segue, which is below it")
    files, commands = PROJECTS[tool]
    repo = tmp_path / "repo"
    for name, text in files.items():
        (repo / name).parent.mkdir(parents=True, exist_ok=True)
        (repo / name).write_text(text)
    repo.mkdir(exist_ok=True)
    who = ("-c", "user.name=Tester", "-c", "user.email=tester@localhost")
    for words in (["init", "--quiet"], ["add", "."], [*who, "commit", "--quiet", "--allow-empty", "-m", "x"]):
        subprocess.run(["git", *words], cwd=repo, check=True)
    sandbox = Isolation(SandboxOptions(isolation=isolation, strength=strength))
    for number, argv in enumerate(commands):
        scratch = tmp_path / f"scratch-{number}"
        inside = sandbox.enclose(argv, repo, child_environment(), scratch, network=False)
        done = subprocess.run(inside.argv, cwd=repo, env=inside.env, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert not Path("/tmp/hard-coded").exists() or isolation == "landlock"
    Path("/tmp/hard-coded").unlink(missing_ok=True)
