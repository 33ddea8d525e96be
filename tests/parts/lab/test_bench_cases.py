"""The cases of the proof bench are well-formed: every pair can be read, and its scripts are understood."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from segue.agents.scripted.acts import AgentScript
from segue.config.settings import Settings
from segue.domain.options import OptionError, read_options
from segue.parts.lab.bench.cases import Pair, ProofCase, load_cases, read_pair
from segue.parts.lab.bench.place import play_once, write_script
from segue.sim.llm.script import LlmScript

CASES = load_cases()
PAIRS = {case.name.partition("/")[0]: case.pair for case in CASES}


def test_there_are_enough_pairs_and_each_has_both_agents() -> None:
    assert len(PAIRS) >= 150
    assert len(CASES) == 2 * len(PAIRS), "two classes have a pair of the same name"
    assert [case.name for case in CASES] == [
        f"{name}/{twin}" for name in PAIRS for twin in ("honest", "cheat")
    ]
    assert all(case.twin is (case.pair.cheat if case.cheats else case.pair.honest) for case in CASES)


def test_the_readme_names_how_many_pairs_there_are() -> None:
    readme = Path(__file__).parents[3] / "README.md"
    assert f"runs {len(PAIRS)} pairs" in readme.read_text("utf-8")


def test_no_two_agents_are_described_alike() -> None:
    described = [case.twin.about for case in CASES]
    assert len(set(described)) == len(described)


def test_the_quick_part_is_a_small_one() -> None:
    quick = [name for name, pair in PAIRS.items() if pair.quick]
    assert 8 <= len(quick) <= len(PAIRS) // 3


def test_the_scripts_of_the_agents_are_understood() -> None:
    for case in CASES:
        written = tomllib.loads(write_script(case.twin.on))
        assert written == {"on": case.twin.on}, case.name
        entries = read_options(AgentScript, written).on
        assert entries, f"{case.name}: an agent without a script writes a note"
        read_options(AgentScript, {"on": play_once(case)})
        made = {*case.pair.files, *(path for entry in entries for path in entry.write)}
        edited = {path for entry in entries for path in (*entry.edit, *entry.append)}
        assert edited <= made, f"{case.name}: a file is edited that nobody wrote"


def test_settings_and_judges_are_understood() -> None:
    for name, pair in PAIRS.items():
        read_options(Settings, pair.settings)
        read_options(LlmScript, {"on": pair.judge})
        assert bool(pair.judge) == (pair.settings.get("judged_by") == "llm"), name
        known = pair.source in pair.files or f"{pair.source}/tasks.md" in pair.files or " " in pair.source
        assert known, name


def test_the_named_tasks_exist() -> None:
    for case in CASES:
        files, name = case.pair.files, case.pair.source
        source = files.get(name) or files.get(f"{name}/tasks.md") or "Task 1, Task 2: planned by the agent"
        named = [*(case.twin.earned if isinstance(case.twin.earned, dict) else ()), *case.twin.titles]
        named += [str(entry["task"]) for entry in case.twin.on if "task" in entry]
        assert all(f"Task {key}" in source or f"] {key} " in source for key in named), case.name


def test_an_agent_that_is_sent_back_does_not_edit_twice() -> None:
    edits = [{"task": "1", "edit": {"a": ["b", "c"]}}, {"task": "2", "write": {"a": "b"}}]
    twin = {"about": "works", "earned": "tested", "on": edits}
    pair = read_options(Pair, {"honest": twin, "cheat": {**twin, "about": "cheats"}})
    first, again, other = play_once(ProofCase("x/honest", pair, False))
    assert (first["attempt"], again["task"], set(again)) == (1, "1", {"task", "say"})
    assert other == edits[1]


def test_a_pair_is_read_on_top_of_its_project() -> None:
    twins = {
        "honest": {"about": "works", "earned": "tested"},
        "cheat": {"about": "cheats", "earned": {"2": "changed"}},
    }
    project = {"files": {"a": "1", "b": "2"}, "settings": {"checks": ["true"]}, "needs": ["go"]}
    data = {"like": "small", "files": {"b": "3"}, "needs": ["make"], **twins}
    pair = read_pair(data, {"small": project})
    assert (pair.files, pair.needs) == ({"a": "1", "b": "3"}, ["make"])
    assert pair.settings == {"checks": ["true"]}
    cheat, honest = ProofCase("x/cheat", pair, True), ProofCase("x/honest", pair, False)
    assert [cheat.earned("1"), cheat.earned("2"), honest.earned("1")] == [None, "changed", "tested"]
    with pytest.raises(OptionError, match="wants"):
        read_options(Pair, {**twins, "wants": 1})
