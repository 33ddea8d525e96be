"""Plug-ins of other packages that are not what they should be: Segue says which one, and why."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from segue.config.trust import explain, is_confined, is_harmless
from segue.domain.errors import SourceError, ToolMissing
from segue.plugins import (
    CALLS,
    COMMANDS,
    EVENTS,
    EXAMINERS,
    OBSERVERS,
    PAGES,
    TABLES,
    VARIANTS,
    import_name,
)
from segue.runtime import registry
from segue.runtime.app import App
from segue.runtime.plan import plan_run

MODULE = '''
from segue import Source, SourceRequest, Task, TaskList

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
'''
POINTS = """[segue.sources]
lines = segue_odd:Lines
half = segue_odd:Half
planfile = segue_odd:Lines
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


def test_a_class_that_lacks_a_method_is_refused_before_it_is_asked(odd: Path) -> None:
    with pytest.raises(ToolMissing, match=r"'half' of segue-odd cannot be used.* has no mark, tasks"):
        App.load(odd).source("x", odd, "half")
    with pytest.raises(ToolMissing, match="has no mark, tasks"):
        App.load(odd).source("list.half", odd)
    assert App.load(odd).source("plan.txt", odd).kind == "planfile", "the broken one cannot be meant"


@pytest.mark.parametrize("keys", ["a/b\n", "a\na\n", "a\n\nb\n"])
def test_keys_that_would_be_taken_for_others_are_refused(odd: Path, keys: str) -> None:
    (odd / "x.lines").write_text(keys)
    app = App.load(odd, command_line={"agent": "scripted"})
    with pytest.raises(SourceError, match=r"A task of .*x\.lines has the key"):
        plan_run(app, app.source("x.lines", odd))


def test_all_that_the_tables_name_can_be_imported() -> None:
    named = [where for variants in VARIANTS.values() for where in variants.values()]
    named += [command.where for command in COMMANDS.values()]
    named += [table.where for table in TABLES.values()]
    named += [where for names in (EVENTS, OBSERVERS, EXAMINERS, CALLS) for where in names.values()]
    assert all(map(import_name, named))
    assert all(map(importlib.import_module, PAGES))


def test_trust_knows_what_a_table_of_a_feature_may_do() -> None:
    for name, table in TABLES.items():
        assert not is_harmless(f"{name}.anything", "x")
        assert all(is_harmless(f"{name}.{one}", "x") for one in table.harmless)
        assert all(is_confined(f"{name}.{one}", "x") for one in (*table.harmless, *table.confined))
        assert explain([f"{name}.anything"]) == {table.meaning: [f"{name}.anything"]}


@pytest.mark.parametrize("words", ["--help", "--version"])
def test_starting_imports_no_feature_and_nothing_slow(words: str) -> None:
    code = (
        "import sys\nfrom segue.cli.main import run\n"
        f"run({words.split()!r})\n"
        "slow = {'importlib.metadata', 'segue.features', 'msgspec'}\n"
        "sys.exit(bool(slow & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
