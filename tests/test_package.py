"""The release is whole: what is built contains what it should, installs, and describes itself truly."""

from __future__ import annotations

import email
import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]
from docs import manual

from segue import __version__

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
SHARE = ROOT / manual.SHARE
WHEEL_LIMIT, SOURCE_LIMIT = 3_000_000, 6_000_000
"""Bytes; both are about half as large."""
PAGES = ("docs/guides", "docs/reference", "docs/explanation", "docs/tutorial.md")
"""What `segue help TOPIC` shows."""
pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout: git lists no files")


def run(*words: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        list(map(str, words)), cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def build(kind: str, place: Path, target: Path) -> Path:
    run(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", target, cwd=place)
    return next(target.glob("*.whl" if kind == "wheel" else "*.tar.gz"))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, built from this checkout."""
    return build("sdist", ROOT, tmp_path_factory.mktemp("source"))


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution alone."""
    place = tmp_path_factory.mktemp("wheel")
    with tarfile.open(source) as archive:
        safely: dict[str, Any] = (
            {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        )  # from 3.11.4 on
        archive.extractall(place, **safely)
    return build("wheel", place / f"segue-{__version__}", place / "dist")


def repository_files(*folders: str) -> set[str]:
    """The files of the repository, also those that are not committed yet."""
    listed = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *folders)
    return {name for name in listed.split("\0") if name and (ROOT / name).is_file()}


@pytest.mark.thorough
def test_the_source_distribution_is_the_repository(source: Path) -> None:
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names == {*repository_files(), "PKG-INFO"}
    assert source.stat().st_size < SOURCE_LIMIT


def test_the_wheel_contains_the_package_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    data, info = f"segue-{__version__}.data/data/", f"segue-{__version__}.dist-info/"
    package = {name.removeprefix("src/") for name in repository_files("src/segue")}
    shared = {data + f"share/{path.relative_to(SHARE)}" for path in SHARE.rglob("*") if path.is_file()}
    described = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
    pages = {f"segue/pages/{name.removeprefix('docs/')}" for name in repository_files(*PAGES)}
    assert names == package | shared | pages | {info + name for name in described}
    assert "segue/py.typed" in names
    assert wheel.name == f"segue-{__version__}-py3-none-any.whl"
    assert wheel.stat().st_size < WHEEL_LIMIT


def metadata(wheel: Path) -> Message:
    folder = f"segue-{__version__}.dist-info/METADATA"
    return email.message_from_bytes(zipfile.ZipFile(wheel).read(folder))


def test_the_metadata_is_complete(wheel: Path) -> None:
    found = metadata(wheel)
    assert (found["Name"], found["Version"]) == ("segue", __version__)
    assert (found["License-Expression"], found["License-File"]) == ("MIT", "LICENSE")
    assert found["Requires-Python"] == ">=3.11"
    assert found["Summary"] == PROJECT["description"]
    assert found["Description-Content-Type"] == "text/markdown"
    assert set(found.get_all("Provides-Extra", [])) == set(PROJECT["optional-dependencies"])
    needed = [text for text in found.get_all("Requires-Dist", []) if "extra ==" not in text]
    assert sorted(needed) == sorted(PROJECT["dependencies"])
    assert isinstance(text := found.get_payload(), str)
    assert text.startswith("# Segue")


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel; what Segue needs comes from the environment of the tests."""
    place = tmp_path_factory.mktemp("installed")
    run(sys.executable, "-m", "venv", "--without-pip", place)
    python = place / "bin" / "python"
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    (packages / "tests.pth").write_text(sysconfig.get_path("purelib"))
    run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        python,
        "install",
        "--no-deps",
        "--no-compile",
        "--no-index",
        wheel,
    )
    return place


def test_the_installed_wheel_runs(installed: Path, tmp_path: Path) -> None:
    assert run(installed / "bin/segue", "--version") == f"segue {__version__}\n"
    where = run(installed / "bin/python", "-c", "import segue; print(segue.__file__)", cwd=tmp_path)
    assert Path(where.strip()).is_relative_to(installed)


def test_the_installed_wheel_has_its_manual_and_completions(installed: Path) -> None:
    for path in SHARE.rglob("*"):
        if path.is_file():
            assert (installed / "share" / path.relative_to(SHARE)).read_text() == path.read_text()


def test_the_installed_wheel_shows_every_page(installed: Path, tmp_path: Path) -> None:
    listed = run(installed / "bin/segue", "help", cwd=tmp_path)
    for page in repository_files(*PAGES):
        if page.endswith(".md"):
            assert re.search(rf"\b{Path(page).stem}\b", listed), page
    asking = "from segue.cli.help import *; print(*(read_topic(name) for name in find_topics()))"
    shown = run(installed / "bin/python", "-c", asking, cwd=tmp_path)
    for page in repository_files(*PAGES):
        if page.endswith(".md"):
            assert (ROOT / page).read_text("utf-8").splitlines()[0] in shown, page


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is not installed")
def test_the_manual_has_no_mistakes() -> None:
    page = SHARE / "man/man1/segue.1"
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-k", page], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    text = re.sub(r"\x1b\[[0-9;]*m|.\x08", "", done.stdout)
    assert "segue task accept" in text
    assert "--agent NAME" in text


def complete(typed: str, expected: str, path: str, tmp_path: Path) -> str:
    """Type something in a real bash, press Tab, and return what is on the screen when `expected` is."""
    script = tmp_path / "rc"
    script.write_text(f"PS1='$ '\nsource {shlex.quote(str(SHARE / manual.COMPLETIONS['bash']))}\n")
    pid, screen = pty.fork()
    if pid == 0:
        environment = {"PATH": path, "HOME": str(tmp_path), "TERM": "dumb"}
        os.execvpe("bash", ["bash", "--noprofile", "--rcfile", str(script), "-i"], environment)
    seen = ""
    try:
        os.write(screen, typed.encode() + b"\t")
        while expected not in seen:
            assert select.select([screen], [], [], 60)[0], f"bash says nothing more: {seen!r}"
            seen += os.read(screen, 4096).decode(errors="replace")
        os.write(screen, b"\x03exit\n")
    finally:
        os.close(screen)
        os.waitpid(pid, 0)
    return seen


@pytest.mark.parametrize(
    ("typed", "expected"), [("segue ru", "segue run "), ("segue db exp", "segue db export ")]
)
def test_bash_completes(typed: str, expected: str, tmp_path: Path) -> None:
    path = os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"]))
    assert expected in complete(typed, expected, path, tmp_path)


@pytest.mark.parametrize(("shell", "flag"), [("zsh", "-n"), ("fish", "--no-execute")])
def test_other_shells_read_their_completions(shell: str, flag: str) -> None:
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    run(shell, flag, SHARE / manual.COMPLETIONS[shell])


def test_the_citation_is_true() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert citation.keys() >= {"cff-version", "message", "title", "authors"}
    assert (citation["cff-version"], citation["type"]) == ("1.2.0", "software")
    assert (citation["version"], citation["license"]) == (__version__, PROJECT["license"])
    assert citation["authors"] == PROJECT["authors"]
    assert all(isinstance(citation[key], str) for key in ("message", "title", "abstract"))


def test_the_changelog_begins_with_this_version() -> None:
    found = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    found = [version for version in found if version != "Unreleased"]
    assert found[0] == __version__
    assert found == sorted(found, key=lambda text: [int(part) for part in text.split(".")], reverse=True)


FIELDS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "markdown": lambda attributes: bool(attributes["value"]),
    "textarea": lambda attributes: bool(attributes["label"]),
    "input": lambda attributes: bool(attributes["label"]),
    "dropdown": lambda attributes: bool(attributes["label"]) and len(attributes["options"]) > 1,
}
"""What GitHub accepts in a form, of what ours use."""


@pytest.mark.parametrize("name", ["bug", "feature", "agent"])
def test_the_forms_for_issues_are_valid(name: str) -> None:
    form = yaml.safe_load((ROOT / f".github/ISSUE_TEMPLATE/{name}.yml").read_text("utf-8"))
    assert form.keys() == {"name", "description", "labels", "body"}
    assert all(FIELDS[field["type"]](field["attributes"]) for field in form["body"])
    ids = [field["id"] for field in form["body"] if field["type"] != "markdown"]
    assert len(ids) == len(set(ids)) > 0


@pytest.fixture(scope="module")
def wheels(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel with everything it needs, from the package index."""
    place = tmp_path_factory.mktemp("wheels")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "-d", place, wheel, "pip"], capture_output=True
    )
    if done.returncode:
        pytest.skip("the package index cannot be reached")
    return place


def install_tool(name: str, place: Path) -> Path:
    """Install a tool in an environment of its own."""
    run(sys.executable, "-m", "venv", place)
    done = subprocess.run([place / "bin/pip", "install", "-q", name], capture_output=True)
    if done.returncode:
        pytest.skip(f"{name} cannot be installed")
    return place / "bin" / name


@pytest.mark.thorough
def test_uv_installs_it(wheel: Path, wheels: Path, tmp_path: Path) -> None:
    uv = install_tool("uv", tmp_path / "uv")
    names = {"UV_TOOL_DIR": "tools", "UV_TOOL_BIN_DIR": "bin", "UV_CACHE_DIR": "cache"}
    places = {name: str(tmp_path / folder) for name, folder in names.items()}
    run(uv, "tool", "install", "--offline", "--no-index", "--find-links", wheels, wheel, env=places)
    assert run(tmp_path / "bin/segue", "--version") == f"segue {__version__}\n"


@pytest.mark.thorough
def test_pipx_installs_it(wheel: Path, wheels: Path, tmp_path: Path) -> None:
    pipx = install_tool("pipx", tmp_path / "pipx")
    places = {name: str(tmp_path / name) for name in ("PIPX_HOME", "PIPX_BIN_DIR", "PIPX_MAN_DIR")}
    places |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
    run(pipx, "install", wheel, env=places)
    assert run(tmp_path / "PIPX_BIN_DIR/segue", "--version") == f"segue {__version__}\n"
    assert (tmp_path / "PIPX_MAN_DIR/man1/segue.1").exists(), "pipx links the manual page"
