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
    check_agent,
    check_delivery,
    check_judge,
    check_notifier,
    check_reviewer,
    check_searcher,
    check_source,
)
from segue.domain.options import read_options
from segue.sim.llm.script import LlmEntry
from tests.cli.place import Place, until
from tests.cli.test_build import plan, step
from tests.judges.endpoint import endpoint
from tests.services import make_services
from tests.web.place import serving

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "examples" / "plugins"
OWN = {
    "agents": "notebook",
    "sources": "todo",
    "reviewers": "markers",
    "judges": "nonempty",
    "searchers": "glossary",
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


def test_the_searcher_conforms(example: ModuleType) -> None:
    options = read_options(example.GlossaryOptions, {"words": {"segue": "A transition without a pause."}})
    check_searcher(lambda services: example.GlossarySearcher(options, services), "What is a segue?")


def test_the_notifier_conforms(example: ModuleType, tmp_path: Path) -> None:
    options = read_options(example.LogbookOptions, {"file": str(tmp_path / "log")})
    check_notifier(
        lambda: example.LogbookNotifier(options, make_services(tmp_path)), (tmp_path / "log").read_text
    )


def test_the_delivery_conforms(example: ModuleType, tmp_path: Path) -> None:
    options = read_options(example.ShelfOptions, {"file": str(tmp_path / "shelf")})
    check_delivery(
        lambda: example.ShelfDelivery(options, make_services(tmp_path)),
        Target("main"),
        count=lambda: len((tmp_path / "shelf").read_text().splitlines()),
    )


# ---- the command line


@pytest.mark.thorough
def test_they_are_listed_with_their_package(place: PluginPlace) -> None:
    listed = place.json("plugins")
    found = {plugin["socket"]: plugin for plugin in listed if plugin["package"] == "segue-example"}
    assert {socket: plugin["name"] for socket, plugin in found.items()} == OWN
    assert {(plugin["version"], plugin["problem"]) for plugin in found.values()} == {("1.0", "")}
    assert found["sources"]["where"] == "segue_example:TodoSource"
    assert "segue_example:LogbookNotifier" in place.segue("plugins").stdout


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_a_killed_run_is_resumed_and_nothing_is_launched_twice(place: PluginPlace) -> None:
    log, slow = place.root / "launches", place.root / "bin" / "tee"
    slow.parent.mkdir()
    slow.write_text(f'#!/bin/sh\necho started >> "{log}"; sleep 3; exec /usr/bin/tee "$@"\n')
    slow.chmod(0o755)
    place.env["PATH"] = f"{slow.parent}{os.pathsep}{place.env['PATH']}"
    place.begin("Write one\nWrite two\n")
    running = subprocess.Popen(
        place.command("run", "todo.txt", "--agent", "notebook"),
        cwd=place.repo,
        env=place.env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until(log.exists, "the first launch")
    running.kill()
    running.wait()
    place.segue("run", "todo.txt", "--agent", "notebook")
    assert log.read_text().splitlines() == ["started"] * 2, "one launch for each task"
    assert place.notebook().count("Write one") == place.notebook().count("Write two")
    assert (place.repo / "todo.txt").read_text() == "x Write one\nx Write two\n"
    assert len(place.subjects()) == 3


@pytest.mark.thorough
def test_a_reviewer_a_judge_and_a_notifier_take_part(place: PluginPlace) -> None:
    log = place.root / "log"
    place.begin("Write one\nWrite two FIXME\n", f'agent = "notebook"\n[notifiers.logbook]\nfile = "{log}"\n')
    place.segue("run", "todo.txt", "--review", "markers", "--judge", "nonempty", "--task", "1")
    run = place.last_run()
    reviewed = place.rows("select 1 from orchestrator_steps where run_id = ? and key like '%review%'", run)
    assert reviewed
    place.segue("run", "todo.txt", "--review", "markers", "--judge", "nonempty", code=None)
    events = place.rows("select data from orchestrator_events where data like '%FIXME%'")
    assert any("notebook.md:" in row[0] for row in events), "the marker was found"
    assert log.read_text().startswith(("run_", "task_", "parked", "finished", "failed")), log.read_text()


@pytest.mark.thorough
def test_a_delivery_gets_the_branch_of_a_run(place: PluginPlace) -> None:
    shelf = place.root / "shelf"
    place.begin(
        "Write one\n", f'agent = "notebook"\ndelivery = "shelf"\n[deliveries.shelf]\nfile = "{shelf}"\n'
    )
    place.segue("run", "todo.txt")
    assert shelf.read_text() == f"segue/{place.last_run()}: Write one\n"


@pytest.mark.thorough
def test_a_searcher_answers_a_judge(place: PluginPlace) -> None:
    place.script(plan(step("a", acceptance=["a works"])))
    wish = {"action": "WEB_SEARCH", "request": "What is a segue?", "caveats": []}
    unmet = {"criteria": [{"key": "1/AC1", "met": False, "evidence": "no"}], "reasoning": "", **wish}
    with endpoint(LlmEntry(reply=unmet, times=1), LlmEntry(judge={"default": True})) as there:
        place.more_config(
            'judged_by = "llm"\nsearch.service = "glossary"\n'
            'searchers.glossary.words.segue = "A transition."\n'
            f'judge.base_url = "{there.base_url}"\njudge.api_key_env = "JUDGE_KEY"\n'
        )
        place.segue("run", "Write one file", JUDGE_KEY="sk-judge-0123456789")
    assert place.rows("select 1 from orchestrator_events where data like '%A transition.%'")


@pytest.mark.thorough
def test_a_broken_plug_in_is_listed_and_breaks_nothing_else(place: PluginPlace) -> None:
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
    problems = {plugin["name"]: plugin["problem"] for plugin in place.json("plugins") if plugin["problem"]}
    assert set(problems) == {"missing", "raises", "gone"}
    assert "segue-broken" in problems["raises"]
    assert "ZeroDivisionError" in problems["raises"]
    assert "ZeroDivisionError" in place.segue("plugins").stderr
    place.begin()
    place.segue("run", "todo.txt", "--agent", "notebook")
    place.segue("task", "list", "todo.txt")
    place.segue("doctor", code=None)
    place.begin("Write four\n")
    refused = place.segue("run", "todo.txt", "--agent", "missing", code=5)
    assert "segue-broken" in refused.stderr
    assert "Traceback" not in refused.stderr
