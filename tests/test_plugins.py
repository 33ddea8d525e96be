"""The example distribution, installed in an environment of its own: one plug-in of each kind at work."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from segue import (
    Options,
    Services,
    SourceRequest,
    Target,
)
from segue.domain.options import read_options
from tests.cli.place import Place
from tests.conformance.agent import check_agent
from tests.conformance.delivery import check_delivery
from tests.conformance.judge import check_judge
from tests.conformance.reviewer import check_reviewer
from tests.conformance.source import check_source
from tests.services import make_services
from tests.web.place import serving

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "plugins"
OWN = {
    "agents": "notebook",
    "sources": "todo",
    "reviewers": "markers",
    "judges": "nonempty",
    "notifiers": "logbook",
    "deliveries": "shelf",
}
TODO = "Write one\nx Write two\nWrite three\n"


@dataclass
class PluginPlace(Place):
    """A place where `segue` is run by the Python that has the plug-ins."""

    python: Path = field(default_factory=Path)

    def command(self, *args: str) -> list[str]:
        return [str(self.python), "-m", "segue", *args]

    def segue(self, *args: str, code: int | None = 0, **env: str) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*args),
            cwd=self.repo,
            env={**self.env, **env},
            capture_output=True,
            text=True,
            timeout=self.patience,
            stdin=subprocess.DEVNULL,
        )
        assert code in (None, done.returncode), f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def begin(self, todo: str = TODO, config: str = "") -> None:
        """Commit a list of things to do, and configure the project."""
        (self.repo / "todo.txt").write_text(todo)
        (self.repo / "segue.toml").write_text(config)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "todo")

    def notebook(self) -> str:
        return (self.repo / "notebook.md").read_text()


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with Segue, its dependencies and the example distribution."""
    return make_environment(tmp_path_factory.mktemp("scratch") / "venv", EXAMPLE)


def make_environment(folder: Path, *distributions: Path) -> Path:
    """Make an environment that borrows the packages of this one, and install distributions into it."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    asked = [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    site = subprocess.run(asked, check=True, capture_output=True, text=True).stdout.strip()
    borrowed = [str(ROOT / "src"), *(path for path in sys.path if path.endswith("site-packages"))]
    (Path(site) / "borrowed.pth").write_text("\n".join(dict.fromkeys(borrowed)) + "\n")
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    for distribution in distributions:
        done = subprocess.run(
            [sys.executable, "-m", "pip", "--python", python, "install", *offline, distribution],
            env={**os.environ, "PATH": f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    return python


@pytest.fixture
def place(tmp_path: Path, python: Path) -> PluginPlace:
    made = Place.make(tmp_path)
    return PluginPlace(made.root, made.env, python=python)


@pytest.fixture(scope="module")
def example() -> Iterator[ModuleType]:
    """The module of the example, imported by its path."""
    spec = importlib.util.spec_from_file_location("segue_example", EXAMPLE / "segue_example.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


# ---- the promises of the sockets


def test_the_agent_conforms(example: ModuleType) -> None:
    check_agent(lambda services: example.NotebookAgent(example.NotebookOptions(), services))


def test_the_source_conforms(example: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "todo.txt").write_text(TODO)
    request = SourceRequest("todo.txt", tmp_path, tmp_path / "state", tmp_path)
    check_source(lambda: example.TodoSource.open(request), request)


def test_the_reviewer_conforms(example: ModuleType) -> None:
    def make(services: Services) -> Any:
        return example.MarkerReviewer(Options(), services)

    check_reviewer(make, "notes.md", "FIXME: a link is missing\n", "All links are here.\n")


def test_the_judge_conforms(example: ModuleType) -> None:
    check_judge(lambda services: example.NonEmptyJudge(Options(), services))


def test_the_delivery_conforms(example: ModuleType, tmp_path: Path) -> None:
    options = read_options(example.ShelfOptions, {"file": str(tmp_path / "shelf")})
    check_delivery(
        lambda: example.ShelfDelivery(options, make_services(tmp_path)),
        Target("main"),
        count=lambda: len((tmp_path / "shelf").read_text().splitlines()),
    )


# ---- the command line


def test_an_agent_and_a_source_run_a_list(place: PluginPlace) -> None:
    place.begin()
    place.segue("run", "todo.txt", "--agent", "notebook")
    assert (place.repo / "todo.txt").read_text() == "x Write one\nx Write two\nx Write three\n"
    assert "Write one" in place.notebook()
    assert "Write three" in place.notebook()
    assert len(place.subjects()) == 3, "one commit for the list, one for each pending task"
    listed = place.json("task", "list", "todo.txt")
    assert [(task["key"], task["status"]) for task in listed["tasks"]] == [(n, "done") for n in "123"]
    (run,) = place.json("status")
    with serving(place) as served:
        page = served.get(f"/runs/{run['id']}.json").json()
    assert "Write three" in json.dumps(page)
    assert "todo.txt" in json.dumps(page)


def test_a_broken_plug_in_breaks_nothing_else(place: PluginPlace) -> None:
    site = place.root / "site"
    info = site / "segue_broken-2.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: segue-broken\nVersion: 2.0\n")
    (info / "entry_points.txt").write_text(
        "[segue.agents]\nmissing = segue_broken:Missing\n"
        "[segue.sources]\nraises = segue_broken_too:Source\n"
        "[segue.notifiers]\ngone = no_such_module:Notifier\n"
    )
    (site / "segue_broken.py").write_text("")
    (site / "segue_broken_too.py").write_text("1 / 0\n")
    place.env["PYTHONPATH"] = os.pathsep.join(filter(None, [str(site), place.env.get("PYTHONPATH", "")]))
    place.begin()
    place.segue("run", "todo.txt", "--agent", "notebook")
    place.segue("task", "list", "todo.txt")
    place.segue("doctor", code=None)
    place.begin("Write four\n")
    refused = place.segue("run", "todo.txt", "--agent", "missing", code=5)
    assert "segue-broken" in refused.stderr
    assert "Traceback" not in refused.stderr
