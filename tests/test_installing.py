"""One line installs Segue; what it does not bring is an extra, whose absence is answered in our own words."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

from segue import __version__
from segue.system.extras import install_line
from tests.cli.place import PLAN, Place
from tests.test_package import ROOT, build, repository_files

pytestmark = pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a checkout: git lists no files")
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]
_INDEX = re.compile(
    r"\b(?:pip|pipx|uv|uvx)\b[\w ./-]*?\b(?:install|run|add)\b(?: +-[\w-]+)* +['\"]?segue\b(?![/.-])"
)
ONLY = ("croniter", "graphql", "litellm", "markdown_it", "mcp", "procrastinate", "psycopg", "pyarrow")
"""What a run with a check does not need."""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place.make(tmp_path)


def test_no_page_names_an_index() -> None:
    pages = [
        name
        for name in repository_files()
        if Path(name).suffix in ("", ".md", ".py", ".toml", ".yml", ".service", ".1")
    ]
    texts = {
        name: (ROOT / name).read_text("utf-8", "replace")
        for name in pages
        if name != "tests/test_installing.py"
    }
    assert {name: found for name, text in texts.items() if (found := _INDEX.findall(text))} == {}
    for wrong in (
        "pip install segue",
        "uv tool install segue",
        "pip install 'segue[mcp]'",
        "pip install -U segue",
    ):
        assert _INDEX.search(wrong), wrong


@pytest.mark.parametrize(
    "page",
    ["README.md", *(f"docs/guides/{name}.md" for name in ("ci", "mcp", "fleet", "litellm", "installing"))],
)
def test_the_pages_have_the_same_line(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    lines = re.findall(r"packaging/install\.sh(?: +[\w./~]+ ([\w,]+))?", text)
    assert lines
    assert {extra for line in lines for extra in line.split(",") if extra} <= set(EXTRAS)


def test_every_extra_is_locked_as_the_whole_is() -> None:
    """`make lock` writes what each extra needs; the versions and hashes are those of the one lock file."""
    lock = (ROOT / "requirements" / "dev.txt").read_text("utf-8")
    for extra in EXTRAS:
        part = (ROOT / "requirements" / "extras" / f"{extra}.txt").read_text("utf-8")
        assert part.count("==") >= 1
        for entry in re.split(r"\n(?=\S)", part.strip()):
            assert "--hash=sha256:" in entry
            assert f"{entry}\n" in lock, (extra, entry.split()[0])


def block(place: Place, *modules: str) -> None:
    """Let neither Segue nor what it starts import these modules."""
    folder = place.root / "blocked"
    folder.mkdir(exist_ok=True)
    (folder / "sitecustomize.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys({modules!r}))\n")
    place.env["PYTHONPATH"] = str(folder)


def call(place: Place, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        place.command(*words), cwd=place.repo, env=place.env, capture_output=True, text=True
    )


@pytest.mark.thorough
def test_a_run_with_a_check_needs_no_extra(place: Place) -> None:
    block(place, *ONLY)
    (place.repo / "segue.toml").write_text('agent = "scripted"\nchecks = ["true"]\n')
    done = call(place, "run", "plan.md", "--task", "1")
    assert done.returncode == 0, done.stderr
    assert call(place, "status").returncode == 0
    assert call(place, "doctor").returncode == 0
    assert call(place, "help", "sandbox").returncode == 0


@pytest.mark.parametrize(
    ("module", "extra", "words"),
    [
        ("graphql", "sim", ("sim", "github", "--port", "0")),
        ("markdown_it", "bridge", ("bridge", "run", "--agent", "scripted", "hello")),
        ("mcp", "mcp", ("mcp",)),
        ("psycopg", "postgres", ("status", "--database-url", "postgresql://u@127.0.0.1:1/x")),
        ("pyarrow", "parquet", ("db", "export", "runs", "--format", "parquet", "--out", "x.parquet")),
    ],
)
def test_a_missing_extra_is_answered_with_the_line(
    place: Place, module: str, extra: str, words: tuple[str, ...]
) -> None:
    block(place, module)
    done = call(place, *words)
    assert done.returncode == 5, done.stderr
    assert "not installed" in done.stderr
    assert "Traceback" not in done.stderr
    assert f"Next: {install_line(extra)}" in done.stderr
    lock = ROOT / "requirements" / "extras" / f"{extra}.txt"
    assert install_line(extra).endswith(f" --no-deps --require-hashes -r {shlex.quote(str(lock))}")
    assert f"{EXTRAS[extra][0].partition('>')[0].partition('[')[0]}==" in lock.read_text()
    assert extra in EXTRAS


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
    words = [str(ROOT / "packaging" / "install.sh"), str(python), "mcp"]
    env = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    done = subprocess.run(words, env=env, check=True, capture_output=True, text=True)
    own = tmp_path / ".local" / "share" / "segue" / "venv" / "bin"
    used = {line.split()[0] for line in log.read_text().splitlines()}
    assert used == {str(own / "python") if managed else str(python)}
    assert log.read_text().count(" pip install ") == 3
    link = tmp_path / ".local" / "bin" / "segue"
    assert (link.readlink() if link.is_symlink() else None) == (own / "segue" if managed else None)
    assert ("Put it on your PATH" in done.stdout) == managed


@pytest.mark.thorough
def test_the_line_installs_it_in_a_fresh_environment(tmp_path: Path) -> None:
    """Type what README says, in a checkout and for a wheel; nothing else is on the path."""
    source = build("sdist", ROOT, tmp_path / "source")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    checkout = tmp_path / f"segue-{__version__}"
    wheel = build("wheel", checkout, tmp_path / "dist")
    for number, target in enumerate((None, str(wheel))):
        home = tmp_path / f"home{number}"
        home.mkdir()
        venv = tmp_path / f"venv{number}"
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        commands: dict[str | None, list[str | Path]] = {
            None: ["packaging/install.sh", venv / "bin/python"],
            str(wheel): [venv / "bin/pip", "install", "-q", wheel],
        }
        done = subprocess.run(commands[target], cwd=checkout, capture_output=True, text=True)
        if done.returncode and "No matching distribution" in done.stderr:
            pytest.skip("the package index cannot be reached")
        assert done.returncode == 0, done.stderr
        env = {"HOME": str(home), "PATH": f"{venv / 'bin'}:{os.defpath}"}

        def segue(*words: str, code: int = 0, env: dict[str, str] = env, home: Path = home) -> str:
            ran = subprocess.run(["segue", *words], cwd=home, env=env, capture_output=True, text=True)
            assert ran.returncode == code, ran.stdout + ran.stderr
            return ran.stdout

        assert segue("--version") == f"segue {__version__}\n"
        assert segue("help", "sandbox").startswith("# ")
        assert "Not ready: " in segue("doctor", code=2)
        (home / "plan.md").write_text(PLAN)
        for words in ("init -q", "add plan.md", "-c user.name=T -c user.email=t@localhost commit -qm plan"):
            subprocess.run(["git", *words.split()], cwd=home, env=env, check=True)
        segue("run", "plan.md", "--agent", "scripted", "--task", "1", "--yes")
        assert "1 done" in segue("status", "last")
