"""A dataset as others read it: validated by their own libraries, complete, and without secrets."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue import __version__
from segue.agents.acp.lines import AcpLines
from segue.agents.acp.profiles import load_profiles
from segue.agents.claude.lines import ClaudeLines
from segue.agents.codex.lines import CodexLines
from segue.domain.errors import UsageError
from segue.domain.events import (
    AgentEnded,
    AgentText,
    AgentThought,
    AgentTool,
    Event,
    PromptSent,
    Recorded,
    event_data,
)
from segue.domain.job import Mode
from segue.domain.run import Run
from segue.parts.lab.dataset.atif import to_atif, to_lines
from segue.parts.lab.dataset.instances import make_portable, split_tests
from segue.parts.lab.dataset.provenance import read_versions
from segue.parts.lab.dataset.publish import Cleaner, Publication, choose_runs, publish
from segue.parts.lab.dataset.trajectory import Trajectory, read_trajectories
from segue.store import connect
from segue.store.flat import FLAT_TABLES
from segue.store.store import Store
from segue.system.redact import Redactor
from tests.agents.stand_in import ended as program_ended
from tests.cli.place import Place
from tests.later import Later
from tests.reports.dataset import Written
from tests.store.test_tables import fill

atif: Any = Later("atif")
duckdb: Any = Later("duckdb")
parquet: Any = Later("pyarrow.parquet")

FACTS = dict.fromkeys(("task", "phase", "build_phase", "attempt", "agent", "model", "result", "failure"))
FACTS |= dict.fromkeys(
    ("input_tokens", "output_tokens", "cost_usd", "proof_level", "base", "head", "diff", "cut")
)
IDS = st.sampled_from(["", "a", "b"])
TEXTS = st.text(max_size=8)
GIVEN = st.none() | TEXTS | st.dictionaries(TEXTS, st.integers() | TEXTS, max_size=2)
EVENTS = st.one_of(
    st.builds(PromptSent, st.just("d"), st.just(1)),
    st.builds(AgentText, TEXTS),
    st.builds(AgentThought, TEXTS),
    st.builds(
        AgentTool,
        TEXTS,
        GIVEN,
        IDS,
        st.sampled_from(["", "started", "completed"]),
        TEXTS,
        GIVEN | st.integers(),
    ),
)


@given(st.lists(EVENTS, max_size=12))
def test_whatever_an_agent_prints_is_a_valid_trajectory(seen: list[Event]) -> None:
    found = Trajectory("run", "task/1/execute/1", 1, {**FACTS})
    for number, event in enumerate(seen, 1):
        found.see(Recorded("run", number, number, "task/1/execute/1", event), "Do it.")
    document = json.loads(json.dumps(to_atif(found)))
    read = atif.Trajectory.model_validate(document)
    assert [step.step_id for step in read.steps] == list(range(1, len(read.steps) + 1))
    for step in document["steps"]:
        ids = [call["tool_call_id"] for call in step.get("tool_calls", ())]
        assert len(ids) == len(set(ids))
    calls = {call.id for turn in found.turns for call in turn.calls}
    assert calls == {line for message in lines(found) for line in called(message)}
    answered = {message["toolCallId"] for message in lines(found) if message["role"] == "tool"}
    assert answered <= calls


def lines(found: Trajectory) -> list[dict[str, Any]]:
    header, *messages = to_lines(found)
    assert header["type"] == "session"
    return [line["message"] for line in messages]


def called(message: dict[str, Any]) -> list[str]:
    for call in message.get("toolCalls", ()):
        json.loads(call["function"]["arguments"])
    return [call["id"] for call in message.get("toolCalls", ())]


def test_a_trajectory_has_the_prompt_the_thoughts_the_calls_and_the_patch(database: str) -> None:
    with connect(database) as store:
        run = asyncio.run(fill(store))
        first = next(read_trajectories(store, run))
    document = to_atif(first)
    assert [step["source"] for step in document["steps"]] == ["user", "agent"]
    assert document["steps"][0]["message"] == "Do it"
    agent = document["steps"][1]
    assert agent["reasoning_content"] == "Hm."
    assert document["final_metrics"] == {
        "total_prompt_tokens": 100,
        "total_completion_tokens": 7,
        "total_steps": 2,
    }
    assert document["extra"]["segue"]["patch"]["diff"] == "diff --git a/x b/x"
    atif.Trajectory.model_validate(document)


def test_tests_and_product_are_told_apart() -> None:
    def part(path: str) -> str:
        return f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-a\n+b\n"

    code, test = part("src/app.py"), part("tests/test_app.py")
    assert split_tests(code + test) == (code, test)
    assert split_tests("") == ("", "")


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, Path]:
    """A folder that was written after a real run, whose agent mentioned the home folder."""
    place = Place.make(tmp_path_factory.mktemp("published"))
    place.script(
        '[[on]]\nsay = "I am in HOME, ada@corp.com"\n'
        'write = { "src.py" = "def double(x):\\n    return 2 * x\\n",'
        ' "tests/test_src.py" = "import unittest\\nfrom src import double\\n\\n'
        "class Double(unittest.TestCase):\\n    def test_six(self):\\n"
        '        self.assertEqual(double(3), 6)\\n" }\n'.replace("HOME", str(place.root / "home" / "work"))
    )
    (place.repo / "logo.bin").write_bytes(bytes(range(256)))
    (place.repo / "tests").mkdir()
    (place.repo / "tests" / "test_old.py").write_text(
        "import unittest\n\nclass Old(unittest.TestCase):\n    def test_old(self):\n        pass\n"
    )
    (place.repo / "tests" / "__init__.py").write_text("")
    place.git("add", "-A")
    place.git("commit", "-qm", "Add a logo")
    python = sys.executable
    command = f"{python} -m unittest discover -t . -s tests"
    place.more_config(f'checks = ["{command}"]\nproof.sharpness = 0.0\nproof.mutants = 1\n')
    place.segue("run", "plan.md", "--task", "1")
    folder = place.root / "my-dataset"
    told = place.json(
        "dataset", "publish", str(folder), "--licence", "cc-by-4.0", HOME=str(place.root / "home")
    )
    assert (told["runs"], told["trajectories"], told["instances"]) == (1, 1, 1)
    return place, folder


@pytest.mark.thorough
def test_datasets_loads_every_table(
    published: tuple[Place, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    import datasets

    folder = str(published[1])
    names = datasets.get_dataset_config_names(folder)
    assert (
        {"runs", "tasks", "attempts", "patches", "prompts", "instances"}
        <= set(names)
        <= {*FLAT_TABLES, "instances"}
    )
    rows = datasets.load_dataset(folder, "attempts", split="train", cache_dir=str(tmp_path / "cache"))
    assert rows["task"] == ["1"]
    assert rows.features["changed"].dtype == "bool"


@pytest.mark.thorough
def test_duckdb_reads_the_tables_with_their_types(published: tuple[Place, Path]) -> None:
    data = published[1] / "data"
    with duckdb.connect() as connection:
        for name in FLAT_TABLES:
            connection.execute(f"CREATE VIEW {name} AS FROM '{data / name}.parquet'")
        [found] = connection.execute(
            "SELECT typeof(changed), typeof(started_at), typeof(cost_usd), failure FROM attempts"
        ).fetchall()
        assert found == ("BOOLEAN", "TIMESTAMP WITH TIME ZONE", "DOUBLE", None)
        joined = "SELECT t.state, p.files FROM patches p JOIN tasks t USING (run_id, task)"
        assert connection.execute(joined).fetchall() == [("done", 2)]


def test_an_instance_has_what_swe_bench_has(published: tuple[Place, Path]) -> None:
    place, folder = published
    [row] = parquet.read_table(folder / "data/instances.parquet").to_pylist()
    assert row["base_commit"] == place.git("rev-parse", "HEAD~1").strip()
    assert "src.py" in row["patch"]
    assert "test_src.py" not in row["patch"]
    assert "test_src.py" in row["test_patch"]
    [prediction] = [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]
    assert set(prediction) == {"instance_id", "model_name_or_path", "model_patch"}
    assert prediction["instance_id"] == row["instance_id"]
    assert json.loads(row["PASS_TO_PASS"]) == ["tests.test_old.Old.test_old"]
    assert json.loads(row["FAIL_TO_PASS"]) == ["tests.test_src.Double.test_six"]
    assert json.loads(row["test_commands"]) == ["python -m unittest discover -t . -s tests"]
    assert json.loads(row["environment"])["python"]
    assert row["problem_statement"].strip() not in ("", row["instance_id"])


def test_instances_are_run_again_from_the_folder_alone(published: tuple[Place, Path], tmp_path: Path) -> None:
    """On another machine: no database, no repository. One with another patch, or a cheated list, falls."""
    elsewhere = tmp_path / "copy"
    shutil.copytree(published[1], elsewhere)
    other = Place.make(tmp_path / "other")
    found = other.json("dataset", "verify", str(elsewhere))
    assert (found["holding"], [one["problem"] for one in found["instances"]]) == (1, [""])
    rows = parquet.read_table(elsewhere / "data/instances.parquet")
    [row] = rows.to_pylist()
    for broken in (
        {"patch": ""},
        {"PASS_TO_PASS": '["tests.test_old.Old.test_gone"]'},
        {"base_archive": "../x"},
    ):
        table = parquet.read_table(published[1] / "data/instances.parquet").from_pylist([{**row, **broken}])
        parquet.write_table(table, elsewhere / "data/instances.parquet")
        assert "0 of 1 instances hold." in other.segue("dataset", "verify", str(elsewhere), code=3).stdout


def test_a_publication_says_where_it_comes_from(published: tuple[Place, Path]) -> None:
    folder = published[1]
    facts = json.loads((folder / "provenance.json").read_text())
    [run] = facts["runs"]
    assert (facts["licence"], run["segue"], run["state"]) == ("cc-by-4.0", [__version__], "done")
    assert set(run) >= {"agents", "models", "settings", "trial", "seeds", "last_event", "began", "flow"}
    assert facts["left_out"] == []
    assert "## Citation" in (folder / "README.md").read_text()


def test_versions_are_those_that_the_programs_print(database: str, tmp_path: Path) -> None:
    """Lines as the programs print them, read by the agents' readers; Codex says it in its session file."""
    init = {"type": "system", "subtype": "init", "session_id": "s", "model": "m", "cwd": "/r"}
    start = {"type": "start", "protocol": 1, "agent": {"name": "gemini-cli", "version": "0.19.4"}}
    claude, acp = ClaudeLines(Mode.EDIT), AcpLines("gemini", load_profiles()["gemini"], Mode.EDIT)
    thread, codex = str(UUID(int=1)), CodexLines(Mode.EDIT, home=tmp_path)
    session = tmp_path / f"sessions/2026/11/16/rollout-2026-11-16T09-37-15-{thread}.jsonl"
    session.parent.mkdir(parents=True)
    meta = {"id": thread, "cli_version": "0.61.0", "instructions": "x" * 100_000}
    session.write_text(json.dumps({"type": "session_meta", "payload": meta}) + "\n{}\n")
    codex.read(json.dumps({"type": "thread.started", "thread_id": thread}))
    outcome = codex.outcome(program_ended(0), 0.0)
    printed = {
        "claude": claude.read(json.dumps({**init, "claude_code_version": "2.3.14"})),
        "gemini": acp.read(json.dumps(start)),
        "codex": [AgentEnded.of(outcome)],
        "cursor": claude.read(json.dumps({"type": "user", "version": "1", "message": {"content": []}})),
    }
    data = Written()
    run = data.run("r")
    for number, (agent, events) in enumerate(printed.items(), 1):
        run.step("execute", number, launched=True, by=(agent, None))
        for event in events or ():
            run.event(f"task/1/execute/{number}", event.type, **event_data(event))
    with connect(data.write(database), read_only=True) as store:
        found = read_versions(store, "r")
    versions = {"claude": "2.3.14", "gemini": "0.19.4", "codex": "0.61.0", "cursor": "not reported"}
    assert found == versions


def test_runs_that_have_not_ended_are_left_out(database: str) -> None:
    data = Written()
    data.run("over").passes()
    data.run("going", "running").execute()
    with connect(data.write(database), read_only=True) as store:
        runs, left = choose_runs(store, ())
    assert [run.id for run in runs] == ["over"]
    assert left == [{"what": "run going", "why": "it is running"}]


def test_what_is_private_follows_a_rule() -> None:
    cleaner = Cleaner(Redactor(()), Path("/home/ada"), ["/srv/work/shop"])
    text = "/srv/work/shop/a.py /home/ada/x /home/bob/y ada@corp.com Ada@corp.com git@github.com"
    text += " a@example.org /usr/bin"
    assert cleaner.clean("x", text) == (
        "/repo/a.py ~/x /home/user/y person-1@redacted.invalid person-1@redacted.invalid git@github.com"
        " a@example.org /usr/bin"
    )


def test_a_command_names_no_place_of_this_machine() -> None:
    assert make_portable("/x/.venv/bin/python -m pytest /r/app/tests", "/r/app") == "python -m pytest tests"
    assert make_portable("./check.sh", "/r/app") == "./check.sh"


def test_trajectories_and_traces_are_valid(published: tuple[Place, Path]) -> None:
    _, folder = published
    [document] = (folder / "trajectories").glob("*.json")
    read = atif.Trajectory.model_validate_json(document.read_text())
    assert any(step.tool_calls for step in read.steps)
    [trace] = (folder / "traces").glob("*.jsonl")
    header, *messages = [json.loads(line) for line in trace.read_text().splitlines()]
    assert header["harness"] == "segue"
    assert {message["message"]["role"] for message in messages} == {"user", "assistant", "tool"}


def test_the_card_names_the_licence_and_the_report_what_was_found(published: tuple[Place, Path]) -> None:
    place, folder = published
    card = (folder / "README.md").read_text()
    assert card.startswith("---\n")
    assert "license: cc-by-4.0\n" in card
    report = json.loads((folder / "redaction.json").read_text())
    assert report["total"]["home_folders"] > 0
    assert report["total"]["mail_addresses_masked"] > 0
    for path in folder.rglob("*"):
        if path.is_file():
            assert str(place.root / "home") not in path.read_text("utf-8", "replace")


def ended(store: Store) -> list[Run]:
    """All runs: `fill` leaves its own at work."""
    return store.runs()


@pytest.mark.quick("sqlite")
def test_secrets_that_slipped_in_are_masked(database: str, tmp_path: Path) -> None:
    with connect(database) as store:
        asyncio.run(fill(store))
        cleaner = Cleaner(Redactor(["diff --git a/x"]))
        runs, made = ended(store), Publication("n", "mit")
        asyncio.run(publish(store, runs, tmp_path / "out", made, cleaner, None))
    assert cleaner.report()["total"]["secrets_masked_now"] > 0
    with duckdb.connect() as connection:
        [(found,)] = set(
            connection.execute(f"SELECT diff FROM '{tmp_path}/out/data/patches.parquet'").fetchall()
        )
    assert "a/x" not in found


@pytest.mark.thorough
def test_a_call_that_was_interrupted_is_repeated(database: str, tmp_path: Path) -> None:
    class Interrupting(Cleaner):
        def clean(self, place: str, value: Any) -> Any:
            if place == "trajectories":
                raise KeyboardInterrupt
            return super().clean(place, value)

    with connect(database) as store:
        asyncio.run(fill(store))
        runs, made = ended(store), Publication("n", "mit")
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(publish(store, runs, tmp_path / "out", made, Interrupting(Redactor()), None))
        again = Publication("n", "mit")
        assert asyncio.run(publish(store, runs, tmp_path / "out", again, Cleaner(Redactor()), None)).runs == 1
    assert (tmp_path / "out" / "README.md").exists()


@pytest.mark.thorough
def test_another_folder_is_not_written_over(published: tuple[Place, Path], tmp_path: Path) -> None:
    place, folder = published
    (tmp_path / "thesis.txt").write_text("mine")
    assert "not empty" in place.segue("dataset", "publish", str(tmp_path), code=2).stderr
    assert (
        "not the name of a licence"
        in place.segue("dataset", "publish", "x", "--licence", "a\nb", code=2).stderr
    )
    assert "There is no run" in place.segue("dataset", "publish", "x", "--run", "nope", code=2).stderr
    before = len(list(folder.rglob("*")))
    place.segue("dataset", "publish", str(folder), "--licence", "mit")
    assert len(list(folder.rglob("*"))) == before


def test_there_must_be_something_to_publish(tmp_path: Path) -> None:
    with connect(tmp_path / "segue.db") as store:
        assert choose_runs(store, ()) == ([], [])
        with pytest.raises(UsageError):
            choose_runs(store, ["x"])
