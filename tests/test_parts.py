"""Parts: how they are found, listed and loaded, also those of other packages."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from docs import generate

import segue
from segue.config.trust import explain, is_confined, is_harmless
from segue.domain.installed import BUILT_IN, GROUP, import_name, is_installed
from tests.cli.place import Place

ROOT = Path(__file__).parents[1]
SOURCE = Path(segue.__file__).parent

GREETER = '''
from typing import ClassVar

import click
from segue import Event, Options, Part, PartCommand, PartTable
from segue_example import NotebookAgent


class GreeterSettings(Options, frozen=True):
    """How it greets."""

    word: str = "Hello"
    """The first word."""


class Greeted(Event, frozen=True):
    """Somebody was greeted."""

    type: ClassVar[str] = "greeter.greeted"
    who: str


class PoliteAgent(NotebookAgent):
    """Does nothing, politely."""

    name = "polite"


@click.command()
@click.option("--config")
def greet(config):
    """Greet."""
    from segue.runtime.app import App

    settings = App.load(None, None, need="nothing").loaded.settings
    click.echo(f"{settings.part('greeter', GreeterSettings).word}, world")


PART = Part(
    name="greeter",
    summary="Greets.",
    commands={"greet": PartCommand("greeter:greet", "Look", "Greet the world.")},
    tables={"greeter": PartTable("greeter:GreeterSettings", "greets", harmless=("word",))},
    events={"greeter.greeted": "greeter:Greeted"},
    sockets={"agents": {"polite": "greeter:PoliteAgent"}},
)
'''


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A place whose Python has a part of another package, and one that cannot be loaded."""
    library = tmp_path / "library"
    for name, text in (("greeter", GREETER), ("broken", "raise RuntimeError('no')\n")):
        info = library / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        (library / f"{name}.py").write_text(text)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {name}:PART\n")
    place = Place.make(tmp_path)
    place.env["PYTHONPATH"] = os.pathsep.join((str(library), str(ROOT / "examples" / "plugins")))
    return place


def test_a_part_of_another_package_works_like_a_built_in_one(place: Place) -> None:
    (place.repo / "segue.toml").write_text('[greeter]\nword = "Good morning"\n')
    assert place.segue("greet").stdout == "Good morning, world\n"
    rows = {row["setting"]: row["value"] for row in place.json("config", "list")}
    assert rows["greeter.word"] == "Good morning"
    (place.repo / "segue.toml").write_text("[greeter]\nword = 1\nloud = true\n")
    assert "greeter.loud: is not an option" in place.segue("config", "list", code=2).stderr


def test_an_agent_of_such_a_part_works(place: Place) -> None:
    place.segue("run", "plan.md", "--agent", "polite", "--task", "1")
    assert "Write one." in place.git("show", "HEAD:notebook.md")


def test_parts_are_listed(place: Place) -> None:
    listed = {part["name"]: part for part in place.json("parts")}
    assert list(listed) == [*BUILT_IN, "greeter"]
    assert listed["greeter"]["package"] == "greeter"
    assert listed["greeter"]["commands"] == ["greet"]
    assert all(part["installed"] for part in listed.values())
    shown = place.segue("parts")
    assert shown.stdout.split()[0] == "PART"
    assert "The part 'broken' of broken cannot be used: RuntimeError: no" in shown.stderr


def test_a_table_that_nobody_has_is_an_error_with_a_suggestion(place: Place) -> None:
    (place.repo / "segue.toml").write_text("[greter]\nword = 'x'\n")
    assert "greter: is not an option; did you mean greeter?" in place.segue("config", "list", code=2).stderr


def test_trust_knows_what_a_table_of_a_part_may_do() -> None:
    for part in BUILT_IN.values():
        for name, table in part.tables.items():
            assert not is_harmless(f"{name}.anything", "x")
            assert all(is_harmless(f"{name}.{one}", "x") for one in table.harmless)
            assert all(is_confined(f"{name}.{one}", "x") for one in (*table.harmless, *table.confined))
            assert explain([f"{name}.anything"]) == {table.meaning: [f"{name}.anything"]}


@pytest.mark.parametrize("words", ["--help", "--version"])
def test_starting_does_not_look_for_parts_of_other_packages(words: str) -> None:
    code = (
        "import sys\nfrom segue.cli.main import run\n"
        f"run({words.split()!r})\n"
        "slow = {'importlib.metadata', 'segue.parts.litellm', 'msgspec'}\n"
        "sys.exit(bool(slow & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_every_part_is_registered_and_says_where_its_things_are() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    folders = {path.name for path in (SOURCE / "parts").iterdir() if (path / "__init__.py").exists()}
    assert set(project["entry-points"][GROUP]) == folders == {name for name in BUILT_IN if is_installed(name)}
    extras = set(project["optional-dependencies"])
    for name, part in BUILT_IN.items():
        assert part == import_name(project["entry-points"][GROUP][name]), "run `make docs`"
        wheres = [*(command.where for command in part.commands.values()), *part.events.values()]
        wheres += [table.where for table in part.tables.values()]
        wheres += [where for variants in part.sockets.values() for where in variants.values()]
        assert all(where.startswith(f"segue.parts.{name}.") for where in wheres)
        assert all(map(import_name, wheres))
        assert set(part.extras) <= extras
        assert all(list((ROOT / "docs").rglob(f"{topic}.md")) for topic in part.topics)
        assert (ROOT / "tests" / "parts" / name).is_dir()


def test_the_index_is_current() -> None:
    assert generate.part_index() == (ROOT / generate.INDEX).read_text("utf-8"), "run `make docs`"


def test_the_core_names_no_part() -> None:
    """Not by text either: what belongs to a part is found in the index."""
    named = [
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if SOURCE / "parts" not in path.parents and "segue.parts." in path.read_text("utf-8")
    ]
    assert sorted(named) == ["conformance.py", "domain/installed.py", "provider.py", "sim/cloud.py"]
