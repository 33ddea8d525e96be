"""Trees without one of the parts, and without any: all else works, and what is missing says so."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from segue.domain.events import all_events
from segue.domain.installed import BUILT_IN
from segue.domain.part import Part
from tests.cli.place import DEADLINE, Place
from tests.warm import ADDRESS
from tests.web.place import serving

ROOT = Path(__file__).parents[2]
COPIED = (
    "src",
    "tests",
    "docs",
    "bench",
    "examples",
    "packaging",
    "pyproject.toml",
    "Makefile",
    ".gitignore",
)
SMOKE = (
    *("tests/domain", "tests/config", "tests/test_house.py", "tests/runtime/test_registry.py"),
    *("tests/cli/test_help.py", "tests/cli/test_run.py", "tests/store/test_store.py"),
)
ALL = "all"

_ANSWERS = """
import contextlib, io, json, sys
from segue.cli.main import run

answers = []
for words in json.load(sys.stdin):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(words)
    answers.append([code, err.getvalue()])
json.dump(answers, sys.stdout)
"""
"""Runs command lines in one process: starting one for each takes longer than all of them."""


class Tree(NamedTuple):
    """A copy of this repository without some parts."""

    root: Path
    gone: list[Part]

    def place(self, root: Path) -> Place:
        """Return a place in which `segue` is that of the copy."""
        place = Place.make(root)
        place.env["PYTHONPATH"] = str(self.root / "src")
        return place

    def python(self, *words: str, stdin: str = "", **env: str) -> subprocess.CompletedProcess[str]:
        # What starts `segue` for our own tests has imported the whole tree.
        inherited = {name: value for name, value in os.environ.items() if name != ADDRESS}
        return subprocess.run(
            [sys.executable, *words],
            cwd=self.root,
            env={**inherited, "PYTHONPATH": str(self.root / "src"), **env},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=3 * DEADLINE,  # a busy machine takes long for the tests of the core
        )

    def answers(self, lines: Sequence[Sequence[str]], **env: str) -> list[tuple[int, str]]:
        """Return exit code and stderr of each command line."""
        done = self.python("-c", _ANSWERS, stdin=json.dumps(lines), **env)
        assert done.returncode == 0, done.stderr
        return [(code, text) for code, text in json.loads(done.stdout)]


@pytest.fixture(scope="module", params=[ALL, *BUILT_IN])
def tree(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A real copy; with the times of its files, so that what is compiled needs not be compiled again."""
    gone = [part for name, part in BUILT_IN.items() if request.param in (ALL, name)]
    root = tmp_path_factory.mktemp("tree")
    for name in (*COPIED, *(page.name for page in ROOT.glob("*.md"))):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, root / name, symlinks=True)
        else:
            shutil.copy2(source, root / name)
    for part in gone:
        shutil.rmtree(root / "src" / "segue" / "parts" / part.name)
        shutil.rmtree(root / "tests" / "parts" / part.name, ignore_errors=True)
    return Tree(root, gone)


@pytest.mark.quick(ALL)
def test_the_core_works_and_keeps_what_the_part_has_stored(tree: Tree, tmp_path: Path) -> None:
    place = tree.place(tmp_path)
    place.segue("run", "plan.md", "--agent", "scripted", "--task", "1")
    _look_at_the_help(tree, place)
    _store_events(place, kinds := [name for part in tree.gone for name in part.events])
    shown = [json.loads(line) for line in place.segue("logs", "last", "--json").stdout.splitlines()]
    found = {line["event"]: line["data"] for line in shown if line["event"] in kinds}
    assert found == {kind: _example(kind) for kind in kinds}
    text = place.segue("logs", "last").stdout
    assert [kind for kind in kinds if f"{kind}: {{" not in text] == [], "shown as they are stored"
    with serving(place) as served:
        page = served.get("/runs").text
        assert place.last_run() in page
        links = re.findall(r'href="(/[^"#?]*)"', page)
        assert "/events" in links
        assert [link for link in links if served.get(link).status_code != 200] == [], "all lead somewhere"


def _look_at_the_help(tree: Tree, place: Place) -> None:
    text = place.segue("--help").stdout
    assert "\n  run " in text
    assert not [name for part in tree.gone for name in part.commands if f"\n  {name} " in text]
    schema = json.loads(place.segue("config", "schema").stdout)["properties"]
    assert "limits" in schema
    assert not [name for part in tree.gone for name in part.tables if name in schema]


def _store_events(place: Place, kinds: Sequence[str]) -> None:
    with closing(sqlite3.connect(place.database)) as connection, connection:
        (last,) = connection.execute("select max(seq) from orchestrator_events").fetchone()
        for seq, kind in enumerate(kinds, last + 1):
            connection.execute(
                "insert into orchestrator_events"
                " select run_id, ?, ts, null, ?, ? from orchestrator_events limit 1",
                (seq, kind, json.dumps(_example(kind))),
            )


@pytest.mark.thorough
@pytest.mark.quick(ALL)
def test_what_is_missing_says_to_which_part_it_belongs(tree: Tree, tmp_path: Path) -> None:
    place = tree.place(tmp_path)
    place.segue("run", "plan.md", "--agent", "scripted", "--task", "1")
    asked: list[tuple[str, list[str]]] = []
    groups = {name: part.name for part in tree.gone for name in part.commands}
    for part in tree.gone:
        # A command of a group that is missing itself, such as `sim devin`, belongs to the group's part.
        asked += [(groups.get(name.split()[0], part.name), name.split()) for name in part.commands]
        for table in part.tables:
            config = tmp_path / f"{table}.toml"
            config.write_text(f"[{table}]\nsome = 1\n")
            asked.append((part.name, ["config", "list", "-C", str(place.repo), "--config", str(config)]))
        for socket, variants in part.sockets.items():
            if socket == "agents":
                words = ["run", "plan.md", "-C", str(place.repo), "--agent"]
                asked += [(part.name, [*words, name]) for name in variants]
        if "submitted" in part.sockets:
            words = ["-C", str(place.repo)]
            asked += [(part.name, [name, _submit_run(place), *words]) for name in ("stop", "resume")]
        for files in part.files.values():
            asked.append((part.name, ["run", files.usual, "-C", str(place.repo), "--agent", "scripted"]))
    for (name, words), (code, text) in zip(
        asked, tree.answers([words for _, words in asked], **place.env), strict=True
    ):
        assert (code, f"belongs to the part {name}, which is not installed." in text) == (2, True), (
            words,
            text,
        )


def _submit_run(place: Place) -> str:
    """Return a run that waits for a machine of a fleet."""
    with closing(sqlite3.connect(place.database)) as connection, connection:
        connection.execute(
            "update orchestrator_runs set state = 'queued', owner = null,"
            """ spec = json_set(spec, '$.origin', json('{"url": "local:shop", "commit": "0"}'))"""
        )
    return place.last_run()


def _example(kind: str) -> dict[str, Any]:
    """Return an event with the fields that it needs."""
    return {field.encode_name: "x" for field in msgspec.structs.fields(all_events()[kind]) if field.required}


@pytest.mark.thorough
@pytest.mark.quick(ALL)
def test_the_pages_are_generated(tree: Tree) -> None:
    done = tree.python("-m", "docs.generate")
    assert done.returncode == 0, done.stderr
    index = "src/segue/domain/parts.json"
    assert (tree.root / index).read_text() == (ROOT / index).read_text(), "a missing part stays known"


@pytest.mark.thorough
def test_the_tests_of_the_core_pass(tree: Tree) -> None:
    done = tree.python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not thorough", *SMOKE)
    assert done.returncode == 0, done.stdout[-5000:]
