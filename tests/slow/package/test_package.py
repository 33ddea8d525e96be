"""The release is whole: what is built has what it should, and one line installs it, extras included."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from segue import __version__
from segue.system.extras import install_line
from tests.cli.place import PLAN, Place

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout: git lists no files")


def run(*words: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(list(map(str, words)), cwd=cwd, env=env, capture_output=True, text=True)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution of this checkout, unpacked."""
    place = tmp_path_factory.mktemp("source")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", place)
    with tarfile.open(next(place.glob("*.tar.gz"))) as archive:
        archive.extractall(place, filter="data")
    return place / f"segue-{__version__}"


@pytest.fixture(scope="module")
def wheel(checkout: Path) -> Path:
    """The wheel, built from the source distribution alone."""
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", checkout / "dist", cwd=checkout)
    return next((checkout / "dist").glob("*.whl"))


def test_the_wheel_contains_the_package_and_nothing_else(wheel: Path) -> None:
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "src/segue")
    package = {name.removeprefix("src/") for name in listed.split("\0") if name and (ROOT / name).is_file()}
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert names == package
    assert "segue/py.typed" in names


@pytest.mark.parametrize("way", ["checkout", "wheel"])
def test_one_line_installs_it_in_a_fresh_environment(
    checkout: Path, wheel: Path, tmp_path: Path, way: str
) -> None:
    venv, home = tmp_path / "venv", tmp_path / "home"
    home.mkdir()
    run(sys.executable, "-m", "venv", venv)
    command: dict[str, list[str | Path]] = {
        "checkout": ["packaging/install.sh", venv / "bin/python", "mcp"],
        "wheel": [venv / "bin/pip", "install", "-q", wheel],
    }
    done = subprocess.run(command[way], cwd=checkout, capture_output=True, text=True)
    if done.returncode and "No matching distribution" in done.stderr:
        pytest.skip("the package index cannot be reached")
    assert done.returncode == 0, done.stderr
    env = {"HOME": str(home), "PATH": f"{venv / 'bin'}:{os.defpath}"}
    assert run("segue", "--version", env=env) == f"segue {__version__}\n"
    if way == "checkout":
        run(venv / "bin/python", "-c", "import mcp", env=env)
    (home / "plan.md").write_text(PLAN)
    for words in ("init -q", "add plan.md", "-c user.name=T -c user.email=t@localhost commit -qm plan"):
        run("git", *words.split(), cwd=home, env=env)
    run("segue", "run", "plan.md", "--agent", "scripted", "--task", "1", "--yes", cwd=home, env=env)
    assert "1 done" in run("segue", "status", "last", cwd=home, env=env)


@pytest.mark.parametrize("extra", EXTRAS)
def test_every_extra_is_locked(extra: str) -> None:
    entries = run(sys.executable, "packaging/extra.py", extra)
    assert "--hash=sha256:" in entries
    for need in EXTRAS[extra]:
        assert f"\n{need.partition('>')[0].partition('[')[0]}==" in f"\n{entries}"


@pytest.mark.parametrize(
    ("module", "extra", "words"),
    [
        ("mcp", "mcp", ("mcp",)),
        ("psycopg", "postgres", ("status", "--database-url", "postgresql://u@127.0.0.1:1/x")),
    ],
)
def test_a_missing_extra_is_answered_with_the_line(
    tmp_path: Path, module: str, extra: str, words: tuple[str, ...]
) -> None:
    place = Place.make(tmp_path)
    (tmp_path / "blocked").mkdir()
    (tmp_path / "blocked/sitecustomize.py").write_text(f"import sys\nsys.modules[{module!r}] = None\n")
    place.env["PYTHONPATH"] = str(tmp_path / "blocked")
    done = subprocess.run(
        place.command(*words), cwd=place.repo, env=place.env, capture_output=True, text=True
    )
    assert done.returncode == 5, done.stderr
    assert "not installed" in done.stderr
    assert f"Next: {install_line(extra)}" in done.stderr


MANAGED = """#!/bin/sh
case "$1 $2" in
    "-c "*) exec {python} -c "import sysconfig; sysconfig.get_path = lambda _: '{marked}'
$2" ;;
    "-m venv") mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
    *) echo "$0 $*" >>{log} ;;
esac
"""


@pytest.mark.parametrize("managed", [True, False])
def test_a_python_of_the_system_gets_an_environment_for_segue(tmp_path: Path, managed: bool) -> None:
    """pip refuses to install into a Python with this marker, as those of Debian and Homebrew have."""
    if managed:
        (tmp_path / "EXTERNALLY-MANAGED").touch()
    python, log = tmp_path / "python3", tmp_path / "log"
    base = Path(sys.base_prefix) / "bin" / "python3"
    python.write_text(MANAGED.format(python=base, marked=tmp_path, log=log))
    python.chmod(0o755)
    said = run(
        *(ROOT / "packaging/install.sh", python), env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    )
    own = tmp_path / ".local" / "share" / "segue" / "venv" / "bin"
    used = {line.split()[0] for line in log.read_text().splitlines()}
    assert used == {str(own / "python") if managed else str(python)}
    link = tmp_path / ".local" / "bin" / "segue"
    assert (link.readlink() if link.is_symlink() else None) == (own / "segue" if managed else None)
    assert ("Put it on your PATH" in said) == managed
