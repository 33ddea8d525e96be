"""Programs and files below temporary folders, which a sandbox replaces by its own: what is named is there."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from segue.system.isolation.isolate import Isolation, SandboxOptions
from segue.system.isolation.places import is_temporary, named_places, outermost
from segue.system.isolation.policy import Strength
from segue.system.process.capture import child_environment
from tests.isolation.means import each

PROGRAM = """import os, pathlib, sys
import helper
print(helper.WORD, pathlib.Path(os.environ["SCRIPT"]).read_text(), sys.prefix)
pathlib.Path("work.txt").write_text("done")
"""


@pytest.fixture(params=["/tmp", "/dev/shm"])
def folder(request: pytest.FixtureRequest) -> Iterator[Path]:
    """A folder with a space in its name, in one of the folders for everybody."""
    if not os.access(request.param, os.W_OK):
        pytest.skip(f"{request.param} cannot be written")
    with tempfile.TemporaryDirectory(dir=request.param, prefix="a place ") as name:
        yield Path(name)


@pytest.mark.parametrize("isolation", each("bwrap"))
def test_what_the_command_names_is_seen_in_the_strict_sandbox(folder: Path, isolation: str) -> None:
    repo, tools, scripts = folder / "a repository", folder / "tools", folder / "scripts"
    for place in (repo, tools, scripts):
        place.mkdir()
    subprocess.run(["git", "init", "--quiet"], cwd=repo, check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tools / "env")], check=True)
    (tools / "helper.py").write_text('WORD = "seen"\n')
    (tools / "agent.py").write_text(PROGRAM)
    (scripts / "script.toml").write_text("the script")
    (folder / "private.txt").write_text("not named")
    sandbox = Isolation(SandboxOptions(isolation=isolation, strength=Strength.STRICT))
    env = child_environment(extra={"SCRIPT": str(scripts / "script.toml")})
    argv = [str(tools / "env/bin/python"), str(tools / "agent.py")]

    def run(words: list[str], number: int) -> subprocess.CompletedProcess[str]:
        inside = sandbox.enclose(words, repo, env, folder / f"scratch-{number}", network=False)
        return subprocess.run(inside.argv, cwd=repo, env=inside.env, capture_output=True, text=True)

    done = run(argv, 1)
    assert done.stdout.strip() == f"seen the script {tools / 'env'}", done.stderr
    assert (repo / "work.txt").read_text() == "done"
    assert run([argv[0], "-c", f"open({str(folder / 'private.txt')!r})"], 2).returncode == 1


def test_a_folder_that_must_stay_apart_is_not_shown_with_a_file_in_it(tmp_path: Path) -> None:
    if not is_temporary(tmp_path):
        pytest.skip("variables count only where temporary files are")
    (tmp_path / "repo").mkdir()
    (tmp_path / "check.sh").write_text("")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "check.sh").write_text("")
    env = {"A": str(tmp_path / "more/check.sh"), "HOME": str(tmp_path), "NOT": "/etc/passwd"}
    env |= {"DATA": str(tmp_path / "data"), "SOMEPATH": f"{tmp_path / 'lib'}:/usr/lib"}
    for name in ("data", "lib"):
        (tmp_path / name).mkdir()
    found = named_places(["sh", str(tmp_path / "check.sh"), f"--x={tmp_path}"], env, (tmp_path / "repo",))
    assert found == [tmp_path / "check.sh", tmp_path / "more", tmp_path / "lib"]


def test_of_nested_places_the_outer_one_counts() -> None:
    places = [Path("/a/b/c"), Path("/a/b"), Path("/a/bc"), Path("/a/b")]
    assert outermost(places) == [Path("/a/b"), Path("/a/bc")]
