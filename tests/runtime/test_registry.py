"""Plug-ins of other packages that are not what they should be: Segue says which one, and why."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from segue.cli.terminal.output import report_error
from segue.domain.errors import SourceError, ToolMissing, UsageError
from segue.runtime import registry
from segue.runtime.app import App
from segue.runtime.plan import plan_run

MODULE = '''
from segue import Options, Source, SourceRequest, Task, TaskList

class Lines(Source):
    """A text file with a key per line."""
    kind = "lines"

    def __init__(self, path):
        self.path, self.key = path, "lines"

    @property
    def address(self):
        return str(self.path)

    @classmethod
    def matches(cls, request):
        return bool(request.named) and request.named.endswith(".lines")

    @classmethod
    def open(cls, request):
        return cls(request.here / request.named)

    def tasks(self):
        return TaskList(tuple(Task(line, "Title", "Text") for line in self.path.read_text().splitlines()))

    def mark(self, task, completion):
        pass

class Half(Source):
    """It inherits from the socket, and forgets two members."""
    kind = "half"

    @classmethod
    def matches(cls, request):
        return bool(request.named) and request.named.endswith(".half")

    @classmethod
    def open(cls, request):
        return cls()

    @property
    def address(self):
        return "half"

class Raising(Lines):
    kind = "raising"

    @classmethod
    def matches(cls, request):
        return bool(request.named) and request.named.endswith(".raising")

    def tasks(self):
        return {}["nothing"]

class Wish(Lines):
    """A wish, whose steps an agent plans."""
    kind = "wish"
    outline = property(lambda self: self)

    @classmethod
    def matches(cls, request):
        return bool(request.named) and request.named.startswith("wish:")

    @classmethod
    def open(cls, request):
        return cls(request.named)

class Nameless:
    """An agent whose objects have no name."""
    Options = Options
    can = None

    def __init__(self, options, services):
        pass

    def check(self): ...
    def installation(self): ...
    def run(self, job): ...
    def forget(self, token): ...

VALUE = 5
'''
POINTS = """[segue.sources]
lines = segue_odd:Lines
half = segue_odd:Half
raising = segue_odd:Raising
wish = segue_odd:Wish
planfile = segue_odd:Lines
[segue.agents]
nameless = segue_odd:Nameless
value = segue_odd:VALUE
"""


def install(folder: Path, name: str, points: str, module: str = "") -> None:
    """Write a distribution as an installer leaves it."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(points)
    if module:
        (folder / "segue_odd.py").write_text(module)


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository of somebody who has installed odd plug-ins."""
    install(tmp_path / "site", "segue-odd", POINTS, MODULE)
    install(tmp_path / "site", "segue-rival", "[segue.agents]\nvalue = segue_rival:Other\n")
    monkeypatch.syspath_prepend(tmp_path / "site")
    caches: tuple[Callable[[], None], ...] = (
        registry._registered.cache_clear,
        registry._entry_points.cache_clear,
    )
    for clear in caches:
        clear()
    repo = tmp_path / "repo"
    repo.mkdir()
    monkeypatch.chdir(repo)
    yield repo
    for clear in caches:
        clear()
    sys.modules.pop("segue_odd", None)


def problems() -> dict[tuple[str, str], str]:
    return {(plugin.package, plugin.name): plugin.problem for plugin in registry.list_installed()}


def test_the_list_says_what_is_wrong_with_each(odd: Path) -> None:
    found = problems()
    assert found["segue-odd", "lines"] == ""
    assert found["segue-odd", "half"].endswith("segue_odd:Half has no mark, tasks")
    assert found["segue-odd", "planfile"].endswith("is not used: Segue has that name already")
    both = {found["segue-odd", "value"], found["segue-rival", "value"]}
    assert any("is not used" in problem for problem in both), "two packages have the same name"


def test_a_class_that_lacks_a_method_is_refused_before_it_is_asked(odd: Path) -> None:
    with pytest.raises(ToolMissing, match=r"'half' of segue-odd cannot be used.* has no mark, tasks"):
        App.load(odd).source("x", odd, "half")
    with pytest.raises(ToolMissing, match="has no mark, tasks"):
        App.load(odd).source("list.half", odd)
    assert App.load(odd).source("plan.txt", odd).kind == "planfile", "the broken one cannot be meant"


def test_an_object_that_lacks_a_property_is_refused(odd: Path, tmp_path: Path) -> None:
    from segue.runtime.wiring import make_agent
    from tests.services import make_services

    with pytest.raises(ToolMissing, match=r"'nameless' of segue-odd cannot be used: .* has no name"):
        make_agent("nameless", App.load(odd).loaded, make_services(tmp_path))


@pytest.mark.parametrize("keys", ["a/b\n", "a\na\n", "a\n\nb\n"])
def test_keys_that_would_be_taken_for_others_are_refused(odd: Path, keys: str) -> None:
    (odd / "x.lines").write_text(keys)
    app = App.load(odd, command_line={"agent": "scripted"})
    with pytest.raises(SourceError, match=r"A task of .*x\.lines has the key"):
        plan_run(app, app.source("x.lines", odd))


def test_a_plug_in_refuses_options_that_it_does_not_use(odd: Path) -> None:
    app = App.load(odd, command_line={"plan_format": "strict"})
    with pytest.raises(UsageError, match="--plan-format has no effect: it is for plan files"):
        app.source("x.lines", odd)
    assert app.source("plan.md", odd).kind == "planfile"
    with pytest.raises(UsageError, match="--plan-format has no effect"):
        app.source("Build a small thing", odd)
    app = App.load(odd, command_line={"task_list": 1})
    with pytest.raises(UsageError, match="--task-list has no effect: it is for Spec Kit features"):
        app.source("plan.md", odd)


def test_an_error_in_a_plug_in_names_its_package(odd: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (odd / "x.raising").write_text("a\n")
    with pytest.raises(KeyError) as raised:
        App.load(odd).source("x.raising", odd).tasks()
    assert report_error(raised.value, as_json=False) == 1
    said = capsys.readouterr().err
    assert "unexpected KeyError in the plug-in package segue-odd: 'nothing'" in said
    assert "the authors of segue-odd" in said
    with pytest.raises(ZeroDivisionError) as ours:
        _ = 1 / 0
    assert registry.find_culprit(ours.value) == ""


def test_a_source_that_is_no_file_is_named_in_the_settings_and_may_be_planned(odd: Path) -> None:
    (odd / "segue.toml").write_text('source = "wish:one"\n')
    app = App.load(odd)
    assert app.source(None, odd).address == "wish:one"
    assert app.plans_tasks(None)
    assert not app.plans_tasks("x.lines")


def test_variants_say_what_a_run_must_know_before_it_begins() -> None:
    said = {"by_checks": "judges", "by_model": "judges", "merges": "deliveries", "leaves": "deliveries"}
    found = {
        what: [name for name in registry.BUILT_IN[socket] if registry.says(socket, name, what)]
        for what, socket in said.items()
    }
    assert found == {"by_checks": ["checks"], "by_model": ["llm"], "merges": ["merge"], "leaves": ["branch"]}
