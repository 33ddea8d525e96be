"""The documentation is true: complete, fresh, linked, and what it shows works."""

from __future__ import annotations

import json
import os
import re
import shlex
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

import click
import pytest
from docs import generate
from docs.needed import COMMANDS

from segue.agents.scripted.acts import AgentScript, ScriptedEntry, UsageEntry
from segue.cli.help import EXIT_CODES
from segue.config.needed import needed_by
from segue.config.part_tables import all_settings, list_settings
from segue.config.tree import OLD_NAMES
from segue.domain.events import all_events
from segue.domain.installed import import_name
from segue.domain.options import read_options
from segue.domain.outcome import FailureKind
from segue.domain.proof import Level
from segue.domain.results import OUTPUTS
from segue.domain.run import RunKind, RunState
from segue.domain.task import TaskKind, TaskStatus
from segue.domain.verdict import Action, DismissReason, Result, Severity
from segue.flow.phase import PHASES
from segue.flow.phase import PRESETS as FLOWS
from segue.parts.sim.cloud.script import CloudScript
from segue.ports import Capabilities
from segue.reviewers.formats import Format
from segue.reviewers.options import PRESETS
from segue.runtime.registry import BUILT_IN, Plugin
from segue.runtime.wiring import agent_kind
from segue.sim.llm.script import LlmScript
from segue.sim.script import check_script
from tests.cli.parsing import parse
from tests.cli.place import Place

ROOT = generate.ROOT
PAGES = generate.pages()
REHEARSAL = """
[[on]]
task = "1"
attempt = 1
say = "I claim to be done."
[[on]]
task = "2"
attempt = 1
limit = "You've hit your usage limit. Try again in 1 second."
[[on]]
write = { "f{task}" = "x" }
usage = { input_tokens = 100, output_tokens = 10, cost_usd = 0.5 }
"""
"""Everything the queries ask about happens: a failure, a retry, a usage limit, tools and cost."""

SCRIPTS: dict[str, Callable[[Any], object]] = {
    "toml cloud": partial(check_script, kind=CloudScript),
    "toml llm": partial(check_script, kind=LlmScript),
    "toml experiment": lambda data: read_options(
        import_name("segue.parts.lab.experiment.trials:Experiment"), data
    ),
}
"""Scripts of simulators, by the kind of block they stand in."""

_FENCED = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\((?!https?://)([^)#\s]*)(?:#([^)\s]+))?\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
_INLINE = re.compile(r"`(segue [^`]+)`")
_INNER = re.compile(r"\$\((segue [^)]*)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: Path
    info: str
    text: str
    before: str
    """The line above the block."""

    def __str__(self) -> str:
        first = next(filter(None, self.text.splitlines()), "")
        return f"{self.page.name}: {first[:40]}"


def blocks(*infos: str, pages: list[Path] = PAGES) -> list[Block]:
    """The fenced blocks of these kinds."""
    found = []
    for page in pages:
        text = page.read_text("utf-8")
        for match in _FENCED.finditer(text):
            before = text[: match.start()].rstrip("\n").rpartition("\n")[2]
            if match["info"] in infos:
                found.append(Block(page, match["info"], match["text"], before))
    return found


def path_of(name: str) -> Path:
    """The page with this name, in whichever folder of the documentation it is."""
    (found,) = (path for path in PAGES if path.name == name and path.parent != ROOT)
    return found


def page(name: str) -> str:
    return path_of(name).read_text("utf-8")


def spans(text: str) -> set[str]:
    """What stands in backticks, outside of fenced blocks."""
    return set(re.findall(r"`([^`\n]+)`", _FENCED.sub("", text)))


def rows(text: str) -> dict[str, set[str]]:
    """The tables of a page: the first cell's span → the spans in the rest of the row."""
    found = re.findall(r"^\| `([^`]+)`[^|]*\|(.*)\|$", text, re.MULTILINE)
    return {name: set(re.findall(r"`([^`]+)`", rest)) for name, rest in found}


def test_every_command_has_its_help_in_the_docs() -> None:
    headings = set(_HEADING.findall(_FENCED.sub("", page("commands.md"))))
    assert {words for words, _ in generate.commands()} - headings == set()


def test_every_option_is_in_the_docs() -> None:
    everything = "".join(path.read_text("utf-8") for path in PAGES)
    options = {
        name
        for _, command in generate.commands()
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for name in parameter.opts
    }
    assert {"--json", "-C", "--detach"} <= options
    assert [name for name in options if not re.search(rf"(?<![\w-]){name}(?![\w-])", everything)] == []


def test_a_user_can_be_named_for_every_setting_and_option() -> None:
    """What nobody needs should go; and nobody is named for what is gone."""
    assert [name for name, _ in list_settings() if not needed_by(name)] == []
    options = generate.command_options()
    assert [name for name in options if name not in COMMANDS] == []
    assert [name for name in COMMANDS if name not in options] == []
    tables = {found["words"] for path in PAGES for found in generate.BLOCK.finditer(path.read_text("utf-8"))}
    of_tables = [
        (table, name)
        for table in tables - {None}
        if f"<!-- options: {table} -->" in "".join(path.read_text("utf-8") for path in PAGES)
        for name, _ in list_settings(generate.find_options(table))
    ]
    assert len(of_tables) > 100
    assert [name for name in of_tables if not generate.option_user(*name)] == []


WORDS: dict[str, tuple[str, list[str]]] = {
    "settings": ("setting-up.md", [name for name, _ in list_settings()]),
    "variables": ("setting-up.md", [generate.variable(name) for name, _ in list_settings()]),
    "old names of settings": ("setting-up.md", [*OLD_NAMES, *filter(None, OLD_NAMES.values())]),
    "exit codes": ("running.md", [str(code) for code in EXIT_CODES]),
    "failures": ("running.md", list(FailureKind)),
    "flows": ("running.md", list(FLOWS)),
    "events": ("events.md", list(all_events())),
    "states": ("looking.md", list(RunState)),
    "verdicts": ("events.md", [*Result, *Action]),
    "levels": ("proof.md", list(Level)),
    "kinds of tasks": ("tasks.md", list(TaskKind)),
    "phases": ("data.md", list(PHASES)),
    "kinds of runs": ("data.md", list(RunKind)),
    "outputs": ("data.md", [kind.__name__ for kind in OUTPUTS]),
    "flows of your own": ("running.md", [name for name, phase in PHASES.items() if phase.in_flows]),
    "sockets": ("events.md", list(Plugin.__struct_fields__)),
    "statuses": ("tasks.md", list(TaskStatus)),
    "agents": ("agents.md", list(BUILT_IN["agents"])),
    "abilities": ("agents.md", list(Capabilities.__struct_fields__)),
    "command": ("agents.md", list(agent_kind("command").Options.__struct_fields__)),
    "reviewers": ("reviewing.md", [*PRESETS, *get_args(Format), *Severity, *DismissReason]),
}
"""Words of the program, and the page that explains them."""


@pytest.mark.parametrize("kind", WORDS)
def test_every_word_is_explained(kind: str) -> None:
    name, words = WORDS[kind]
    assert words
    assert [word for word in words if word not in spans(page(name))] == []


def test_agents_can_what_is_said_of_them(tmp_path: Path) -> None:
    place = Place.make(tmp_path)
    listed = place.json("agent", "list", SEGUE_AGENTS__COMMAND__ARGV='["true"]')
    text = page("agents.md")
    abilities = rows(text[text.index("| agent | can |") :])
    assert {agent["name"]: set(agent["can"]) for agent in listed} == {
        name: abilities[name] for name in BUILT_IN["agents"]
    }


def test_the_house_has_all_its_layers() -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]
    layers = " ".join(tool["importlinter"]["contracts"][0]["layers"])
    house = blocks("text", pages=[ROOT / "ARCHITECTURE.md"])[0].text
    assert set(re.findall(r"(?<!\()\b\w+\b(?!\))", layers)) - set(house.split()) == set()


def test_every_table_of_options_is_shown() -> None:
    everything = "".join(path.read_text("utf-8") for path in PAGES)
    assert [name for name in generate.OPTIONS if f"<!-- options: {name} -->" not in everything] == []


def test_every_script_key_is_explained() -> None:
    explained = {name.split(" ")[0] for name in spans(page("scripted-agent.md"))}
    assert set(ScriptedEntry.__struct_fields__) - explained == set()
    assert all(name in page("scripted-agent.md") for name in UsageEntry.__struct_fields__)


def test_generated_parts_are_fresh() -> None:
    assert generate.stale() == [], "run `make docs`"
    for path in PAGES:
        text = path.read_text("utf-8")
        assert text.count("<!-- /") == len(re.findall(generate.BLOCK, text)), f"{path}: a marker is misspelt"


@pytest.mark.thorough
def test_the_generator_does_not_depend_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "dumb")
    assert generate.stale() == []


def test_stale_parts_are_seen() -> None:
    assert generate.rewritten("<!-- exit-codes -->\nold\n<!-- /exit-codes -->").count("| `130` |") == 1


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    headings = _HEADING.findall(_FENCED.sub("", path.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", [*PAGES, ROOT / "CHANGELOG.md"], ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target, anchor in _LINK.findall(_FENCED.sub("", path.read_text("utf-8"))):
        there = (path.parent / target).resolve() if target else path
        assert there.exists(), f"{target} does not exist"
        assert not anchor or anchor in anchors(there), f"{target} has no heading #{anchor}"


def test_every_page_is_reached_from_the_readme() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {
        (path.parent / target).resolve()
        for path in (ROOT / "README.md", index)
        for target, _ in _LINK.findall(path.read_text("utf-8"))
    }
    assert index in linked
    assert set((ROOT / "docs").rglob("*.md")) - linked == set()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_tables_have_heads(path: Path) -> None:
    """A table that an empty line cuts in two is shown as text."""
    lines = ["", *_FENCED.sub("", path.read_text("utf-8")).splitlines(), ""]
    begun = [n for n in range(1, len(lines)) if lines[n].startswith("|") and not lines[n - 1].startswith("|")]
    assert [lines[n] for n in begun if not re.fullmatch(r"[| :-]+", lines[n + 1])] == []


def words_by_hand(path: Path) -> int:
    """How many words of a page somebody wrote: those outside of generated parts, examples included."""
    written = generate.BLOCK.sub("", path.read_text("utf-8"))
    return sum(any(map(str.isalnum, word)) for word in written.split())


def test_the_documentation_is_short() -> None:
    pages = {path: words_by_hand(path) for path in PAGES}
    assert pages[ROOT / "README.md"] <= 900
    assert pages[ROOT / "ARCHITECTURE.md"] <= 1_800
    assert sum(pages.values()) <= 40_000


def test_every_page_that_a_message_names_exists() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py")]
    named = {page for text in texts for page in re.findall(r"\bdocs/[\w/-]+\.md", text)}
    assert {page for page in named if not (ROOT / page).is_file()} <= {"docs/api.md"}, "an example"


def command_lines() -> Iterator[tuple[str, str]]:
    """Every `segue …` that a page shows: in consoles, in examples of help texts, in backticks."""
    for block in blocks("console", "sh", "text"):
        for line in block.text.splitlines():
            shown = line.strip().removeprefix("$ ")
            if block.info == "text":
                shown = re.split(r" {2,}", shown)[0]
            if re.match(r"(?:[A-Z_]+=\S+ )*segue ", shown) or "$(segue " in shown:
                yield block.page.name, shown
    for path in PAGES:
        for shown in _INLINE.findall(_FENCED.sub("", path.read_text("utf-8"))):
            yield path.name, shown.replace("…", "SOURCE")


def simple_commands(line: str) -> Iterator[list[str]]:
    """The `segue` calls in a line of shell, without redirections."""
    for inner in _INNER.findall(line):
        yield shlex.split(inner)
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
        calls = list(simple_commands(line))
        assert calls, (name, line)
        for words in calls:
            try:
                parse(words)
            except click.UsageError as error:
                wrong.append(f"{name}: {line}: {error.format_message()}")
    assert wrong == []


@pytest.mark.parametrize(
    "line", ["segue fly", "segue run x --fast", "segue db export nothing", "A=1 segue db --x"]
)
def test_wrong_command_lines_are_seen(line: str) -> None:
    with pytest.raises(click.UsageError):
        parse(next(simple_commands(line)))


def check_settings(values: dict[str, Any]) -> None:
    settings = read_options(all_settings(), values)
    for name, options in settings.agents.items():
        read_options(agent_kind(name).Options, options)
    for name, options in settings.reviewers.items():
        read_options(generate.find_options(f"reviewers.{name}"), options)


@pytest.mark.parametrize("block", blocks("toml", "toml pyproject", *SCRIPTS), ids=str)
def test_toml_is_valid(block: Block) -> None:
    values = tomllib.loads(block.text)
    if block.info in SCRIPTS:
        SCRIPTS[block.info](values)
    elif block.info == "toml pyproject":
        check_settings(values.get("tool", {}).get("segue", {}))
    elif values.keys() == {"on"}:
        read_options(AgentScript, values)
    else:
        check_settings(values)


@pytest.mark.thorough
def test_the_example_agent_conforms_and_is_found(tmp_path: Path) -> None:
    (source,), (test,) = blocks("python agent"), blocks("python test")
    points = next(b.text for b in blocks("toml pyproject") if "segue.agents" in b.text)
    assert len(source.text.splitlines()) < 60
    place = Place.make(tmp_path / "place")
    install(tmp_path / "site", source.text, tomllib.loads(points)["project"])
    paths = [str(tmp_path / "site"), place.env.get("PYTHONPATH", "")]
    place.env["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    listed = place.json("agent", "list")
    assert [agent["ready"] for agent in listed if agent["name"] == "notebook"] == [True]
    place.segue("run", "plan.md", "--agent", "notebook")
    assert "Write three." in (place.repo / "notebook.md").read_text()
    written = tmp_path / "test_notebook.py"
    written.write_text(test.text)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(written)],
        cwd=tmp_path,
        env=place.env,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def install(site: Path, source: str, project: dict[str, Any]) -> None:
    """Do what pip would: the module, and what its distribution says about it."""
    info = site / "segue_notebook-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "segue_notebook.py").write_text(source)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    lines = [f"{name} = {value}" for name, value in project["entry-points"]["segue.agents"].items()]
    (info / "entry_points.txt").write_text("\n".join(["[segue.agents]", *lines, ""]))


def shape(value: Any) -> Any:
    """Names and types of a JSON value; lists by their first element."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return "number" if isinstance(value, int | float) else type(value).__name__


def fits(example: Any, real: Any) -> bool:
    """Whether two JSON values have the same names and types; null fits anything."""
    if isinstance(example, dict) and isinstance(real, dict):
        return example.keys() == real.keys() and all(fits(example[name], real[name]) for name in example)
    if isinstance(example, list) and isinstance(real, list):
        return all(fits(*pair) for pair in zip(example[:1], real[:1], strict=False))
    return example is None or real is None or shape(example) == shape(real)


def rehearse(place: Place, *args: str) -> str:
    """A real run in which much happens; what it printed."""
    place.script(REHEARSAL)
    return place.segue("run", "plan.md", *args, SEGUE_LIMITS__ATTEMPTS="2").stdout


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, str]:
    """A place where a run has ended, and what the run printed for programs."""
    place = Place.make(tmp_path_factory.mktemp("rehearsal"))
    return place, rehearse(place, "--json")


def test_the_machine_contract_is_as_shown(rehearsal: tuple[Place, str]) -> None:
    place, printed = rehearsal
    shown = {b.before: b.text for b in blocks("json", pages=[path_of("events.md")])}
    real = {json.loads(line)["type"]: json.loads(line) for line in printed.splitlines()}
    for line in shown["<!-- example: segue run plan.md --json -->"].splitlines():
        example = json.loads(line)
        seen = {**real[example["type"]], "data": {}} if example["type"] == "event" else real[example["type"]]
        assert shape({**example, "data": {}} if "data" in example else example) == shape(seen)
    answer = json.loads(place.segue("status", "last", "--json").stdout)
    assert fits(json.loads(shown["<!-- example: segue status last --json -->"]), answer)
    state = next(b.text for b in blocks("json", pages=[path_of("tasks.md")]))
    assert json.loads(state).keys() == json.loads(place.state_file().read_text()).keys()


@pytest.fixture(scope="module")
def feature(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which simulated cloud agents have carried a feature that was judged, with a resolution."""
    folder = tmp_path_factory.mktemp("feature")
    Place.make(folder / "place").segue("demo", "feature", "--dir", str(folder / "demo"))
    return folder / "demo" / "feature"


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A place where a person has accepted one task and left another one out."""
    place = Place.make(tmp_path_factory.mktemp("decided"))
    place.script('[[on]]\nsay = "I claim to be done."\n')
    assert "(then segue resume, or segue task accept 1)" in place.segue("run", "plan.md", code=3).stderr
    place.segue("task", "accept", "1")
    place.segue("resume", code=3)
    place.segue("task", "skip", "2", "--reason", "not needed")
    return place


def data_of_events(database: Path) -> set[tuple[str, str]]:
    """The types of events in a database, with the names in their data."""
    query = "SELECT DISTINCT e.type, j.key FROM orchestrator_events e, json_each(e.data) j"
    with closing(sqlite3.connect(database)) as connection:
        return set(connection.execute(query))


def test_the_data_of_events_is_as_listed(rehearsal: tuple[Place, str], feature: Path, decided: Place) -> None:
    listed = rows(page("events.md"))
    databases = rehearsal[0].database, feature / "state" / "segue.db", decided.database
    seen = set[tuple[str, str]]().union(*map(data_of_events, databases))
    assert {("verdict", "criteria"), ("agent.ended", "facts"), ("task.marked", "by")} <= seen
    assert [(kind, key) for kind, key in sorted(seen) if key not in listed[kind]] == []


def test_the_state_of_a_feature_is_as_shown(feature: Path) -> None:
    shown = json.loads(next(b.text for b in blocks("json", pages=[path_of("speckit.md")])))
    real = json.loads(next(feature.glob("repo/specs/*/state.json")).read_text())
    assert {**shape(shown), "tasks": {}} == {**shape(real), "tasks": {}}
    assert shape(shown["tasks"]["T012"]) == shape(next(iter(real["tasks"].values())))


def test_decisions_are_written_as_told(decided: Place) -> None:
    state = json.loads(decided.state_file().read_text())
    assert (state["completed_task_keys"], state["skipped_task_keys"]) == (["1"], ["2"])
    tasks = decided.json("status", "last")["tasks"]
    told = [(task["state"], task["reason"], task["verdict"]) for task in tasks]
    assert told[:2] == [("done", "accepted by a person", "FAIL"), ("skipped", "skipped: not needed", "FAIL")]


def queries(info: str = "sql") -> list[Block]:
    return blocks(info, pages=[path_of("data.md")])


def test_tables_and_views_are_explained_column_by_column(rehearsal: tuple[Place, str]) -> None:
    place, _ = rehearsal
    text = page("data.md") + page("tables.md")
    sections = re.split(r"^`(?=orchestrator_|segue_)", text, flags=re.MULTILINE)
    explained = {text.split("`")[0]: spans("`" + text) for text in sections[1:]}
    tables = place.rows("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")
    assert {name for (name,) in tables} == set(explained)
    for name, words in explained.items():
        columns = {column for (column,) in place.rows("SELECT name FROM pragma_table_info(?)", name)}
        assert columns - words == set(), name


def test_the_queries_answer_on_sqlite(rehearsal: tuple[Place, str]) -> None:
    place, _ = rehearsal
    assert len(queries()) > 2
    with closing(sqlite3.connect(place.database)) as connection:
        for query in queries():
            assert connection.execute(query.text).fetchall(), f"{query} finds nothing"


def test_the_queries_about_features_answer(feature: Path) -> None:
    assert queries("sql feature")
    with closing(sqlite3.connect(feature / "state" / "segue.db")) as connection:
        for query in queries("sql feature"):
            assert connection.execute(query.text).fetchall(), f"{query} finds nothing"


def test_the_queries_answer_on_postgres(tmp_path: Path, postgres: str) -> None:
    import psycopg

    place = Place.make(tmp_path)
    rehearse(place, "--database-url", postgres)
    with psycopg.connect(postgres) as connection:
        for query in queries():
            assert connection.execute(query.text.encode()).fetchall(), f"{query} finds nothing"
        for query in queries("sql feature"):
            connection.execute(query.text.encode())
