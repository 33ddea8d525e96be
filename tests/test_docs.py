"""The documentation is true: linked, complete, and what it shows can be typed."""

from __future__ import annotations

import json
import re
import shlex
import sqlite3
import tomllib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import click
import pytest
from docs import generate

from segue.agents.scripted.acts import AgentScript
from segue.config.feature_tables import all_settings, list_settings
from segue.domain import errors
from segue.domain.options import read_options
from segue.domain.proof import Level
from segue.domain.run import RunState
from segue.domain.task import TaskKind
from segue.flow.phase import PRESETS
from segue.plugins import VARIANTS
from segue.runtime.wiring import agent_kind
from tests.cli.parsing import parse
from tests.cli.place import Place

ROOT = generate.ROOT
PAGES = generate.pages()
_FENCED = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\((?!https?://)([^)#\s]*)(?:#([^)\s]+))?\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_INLINE = re.compile(r"`(segue [^`]+)`")


def blocks(*infos: str) -> list[tuple[str, str]]:
    """The fenced blocks of these kinds, each with the name of its page."""
    return [
        (path.name, found["text"])
        for path in PAGES
        for found in _FENCED.finditer(path.read_text("utf-8"))
        if found["info"] in infos
    ]


def page(name: str) -> str:
    (found,) = (path for path in PAGES if path.name == name and path.parent != ROOT)
    return found.read_text("utf-8")


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    headings = _HEADING.findall(_FENCED.sub("", path.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_links_lead_somewhere() -> None:
    for path in (*PAGES, ROOT / "CHANGELOG.md"):
        for target, anchor in _LINK.findall(_FENCED.sub("", path.read_text("utf-8"))):
            there = (path.parent / target).resolve() if target else path
            assert there.exists(), f"{path.name}: {target} does not exist"
            assert not anchor or anchor in anchors(there), f"{path.name}: {target} has no heading #{anchor}"


def test_every_page_is_reached_from_the_readme() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {
        (path.parent / target).resolve()
        for path in (ROOT / "README.md", index)
        for target, _ in _LINK.findall(path.read_text("utf-8"))
    }
    assert index in linked
    assert set((ROOT / "docs").rglob("*.md")) - linked == set()


def test_every_page_that_a_message_names_exists() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    named = {name for text in texts for name in re.findall(r"\bdocs/[\w/-]+\.md", text)}
    assert {name for name in named if not (ROOT / name).is_file()} <= {"docs/api.md"}, "an example"


WORDS: dict[str, list[str]] = {
    "setting-up.md": [name for name, _ in list_settings()],
    "running.md": [
        *map(str, sorted({e.exit_code for e in vars(errors).values() if hasattr(e, "exit_code")}))
    ],
    "proof.md": list(Level),
    "tasks.md": list(TaskKind),
    "agents.md": list(VARIANTS["agents"]),
}
WORDS["running.md"] += [*PRESETS, *RunState]
"""Words of the program by the page that explains them."""


@pytest.mark.parametrize("name", WORDS)
def test_every_word_is_explained(name: str) -> None:
    spans = set(re.findall(r"`([^`\n]+)`", _FENCED.sub("", page(name))))
    assert [word for word in WORDS[name] if word not in spans] == []


def command_lines() -> Iterator[tuple[str, str]]:
    """Every `segue …` that a page shows, in consoles and in backticks."""
    for name, text in blocks("console", "sh"):
        for line in text.splitlines():
            if re.match(r"(?:\$ )?(?:[A-Z_]+=\S+ )*segue ", line.strip()):
                yield name, line.strip().removeprefix("$ ")
    for path in PAGES:
        for shown in _INLINE.findall(_FENCED.sub("", path.read_text("utf-8"))):
            yield path.name, shown.replace("…", "SOURCE")


def simple_commands(line: str) -> Iterator[list[str]]:
    """The `segue` calls in a line of shell, without redirections."""
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.commenters, words.whitespace_split = "#", True
    call: list[str] = []
    for word in [*words, ";"]:
        if re.fullmatch(r"[;&|<>()]+", word):
            if call[:1] == ["segue"]:
                yield call
            call = []
        elif call or not re.fullmatch(r"[A-Z_]+=.*", word):
            call.append(word)


def test_command_lines_can_be_typed() -> None:
    wrong: list[str] = []
    for name, line in sorted(set(command_lines())):
        for words in simple_commands(line):
            try:
                parse(words)
            except click.UsageError as error:
                wrong.append(f"{name}: {line}: {error.format_message()}")
    assert wrong == []


def check_settings(values: dict[str, Any]) -> None:
    settings = read_options(all_settings(), values)
    for name, options in settings.agents.items():
        read_options(agent_kind(name).Options, options)
    for name, options in settings.reviewers.items():
        read_options(generate.find_options(f"reviewers.{name}"), options)


def test_toml_and_json_are_valid() -> None:
    for name, text in blocks("toml"):
        values = tomllib.loads(text)
        try:
            read_options(AgentScript, values) if values.keys() == {"on"} else check_settings(values)
        except ValueError as error:
            raise AssertionError(f"{name}: {text}") from error
    for name, text in blocks("json"):
        for document in [text] if text.startswith(("{\n", "[\n")) else text.splitlines():
            assert json.loads(document), name


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A place where a run has ended in which much happened."""
    place = Place.make(tmp_path_factory.mktemp("ended"))
    place.script(
        '[[on]]\ntask = "1"\nattempt = 1\nsay = "I claim to be done."\n'
        "[[on]]\nwrite = { 'f{task}' = 'x' }\n"
        "usage = { input_tokens = 100, output_tokens = 10, cost_usd = 0.5 }\n"
    )
    place.segue("run", "plan.md", SEGUE_LIMITS__ATTEMPTS="2")
    return place


def test_the_documents_for_programs_are_as_shown(ended: Place) -> None:
    shown = [json.loads(text) for name, text in blocks("json") if name == "events.md" and text[:2] == "{\n"]
    status = next(one for one in shown if "tasks" in one.get("data", {}))
    real = ended.json("status", "last")
    assert status["data"].keys() == real.keys()
    assert status["data"]["tasks"][0].keys() == real["tasks"][0].keys()


def test_the_queries_answer(ended: Place) -> None:
    queries = [text for name, text in blocks("sql") if name == "data.md"]
    assert len(queries) > 2
    with closing(sqlite3.connect(ended.database)) as connection:
        for query in queries:
            connection.execute(query)
