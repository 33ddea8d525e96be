"""The command agent: any program, prompt on stdin, work in the workspace."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from segue.agents.command import CommandAgent, CommandOptions
from segue.domain.events import AgentOutput, AgentStarted
from segue.domain.job import Job, Limits, Mode
from segue.domain.options import OptionError, fill_placeholders
from segue.domain.outcome import Outcome
from segue.domain.task import Task
from segue.ports import Problem
from segue.prompts.task import execute_prompt
from segue.system.process.processes import Processes
from tests.agents.items import Items, as_stored, lend, of, outcome

SECRET = "sk-not-for-your-eyes-0123456789"
PROMPT = execute_prompt(Task("1", "Say ‘hello’", ""), "", nonce="test")


def options(
    *argv: str, env: Mapping[str, str] | None = None, pass_env: list[str] | None = None
) -> CommandOptions:
    return CommandOptions(argv=list(argv), env=dict(env or {}), pass_env=pass_env or [])


def python(code: str, *arguments: str) -> CommandOptions:
    return options(sys.executable, "-c", code.replace("{", "{{").replace("}", "}}"), *arguments)


def run(
    tmp_path: Path, chosen: CommandOptions, limits: Limits | None = None, model: str | None = None
) -> Items:
    job = Job(
        token="token",
        prompt=PROMPT,
        workspace=tmp_path,
        mode=Mode.EDIT,
        model=model,
        limits=limits or Limits(wall=60, idle=60, grace=0.5),
        labels={"run": "r7", "task": "T 1", "phase": "execute", "attempt": "2"},
    )

    async def collect() -> Items:
        async with Processes(tmp_path / ".run") as processes:
            agent = CommandAgent(chosen, lend(processes, SECRET))
            return [event async for event in agent.run(job)]

    return asyncio.run(collect())


def output(events: Items, stream: str = "out") -> str:
    return "".join(event.text for event in of(events, AgentOutput) if event.stream == stream)


def check(tmp_path: Path, chosen: CommandOptions) -> list[Problem]:
    return CommandAgent(chosen, lend(Processes(tmp_path))).check()


def test_the_prompt_comes_on_stdin_and_the_work_happens_in_the_workspace(tmp_path: Path) -> None:
    code = "import sys; open('got', 'wb').write(sys.stdin.buffer.read()); print('I did it.')"
    events = run(tmp_path, python(code))
    assert (tmp_path / "got").read_bytes() == PROMPT.text.encode()
    assert outcome(events).failure is None
    assert outcome(events).text == "I did it."
    assert outcome(events).usage is None
    assert [type(item) for item in events] == [
        AgentStarted,
        AgentOutput,
        Outcome,
    ]


def test_placeholders_are_filled_inside_single_arguments(tmp_path: Path) -> None:
    code = "import sys; print(sys.argv[1:])"
    chosen = python(code, "--model={model}", "{mode}", "{workspace}/x", "{task}", "{session}", "{{task}}")
    events = run(tmp_path, chosen, model="big; rm -rf *")
    expected = ["--model=big; rm -rf *", "edit", f"{tmp_path}/x", "T 1", "", "{task}"]
    assert output(events).strip() == str(expected)


@pytest.mark.parametrize(
    "argument", ["{nope}", "{}", "{0}", "{model!r}", "{model:>9}", "{model.x}", "{", "}"]
)
def test_an_unknown_placeholder_is_a_configuration_error(argument: str) -> None:
    with pytest.raises(OptionError):
        options("tool", argument)


@settings(deadline=None)
@given(st.text(), st.text())
def test_escaped_text_and_values_come_through_unchanged(text: str, value: str) -> None:
    escaped = text.replace("{", "{{").replace("}", "}}")
    assert fill_placeholders(escaped + "{task}", {"task": value}) == text + value


def test_the_environment_is_allow_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VENDOR_API_KEY", "hidden")
    monkeypatch.setenv("WANTED", "seen")
    code = "import os; print(sorted(n + '=' + v for n, v in os.environ.items()))"
    chosen = structs.replace(python(code), pass_env=["WANTED"], env={"MORE": "1", "SEGUE_TASK": "x"})
    seen = output(run(tmp_path, chosen))
    assert "VENDOR_API_KEY" not in seen
    for part in (
        "WANTED=seen",
        "MORE=1",
        "SEGUE_RUN=r7",
        "SEGUE_TASK=T 1",
        "SEGUE_PHASE=execute",
        "SEGUE_ATTEMPT=2",
    ):
        assert f"'{part}'" in seen


def test_check_names_the_fix(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("#!/bin/sh\n")
    (nowhere,) = check(tmp_path, options("no-such-program-anywhere"))
    (not_executable,) = check(tmp_path, options(str(plain)))
    (missing,) = check(tmp_path, options(str(tmp_path / "missing")))
    assert nowhere.exit_code == not_executable.exit_code == missing.exit_code == 5
    assert "PATH" in nowhere.message
    assert "chmod +x" in not_executable.fix
    assert "agents.command.argv" in missing.fix


def test_check_looks_where_the_program_will_be_looked_up(tmp_path: Path) -> None:
    tool = tmp_path / "bin" / "my-agent"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\necho found\n")
    tool.chmod(0o755)
    path = f"{tool.parent}{os.pathsep}{os.environ['PATH']}"
    assert len(check(tmp_path, options("my-agent"))) == 1
    chosen = options("my-agent", env={"PATH": path})
    assert check(tmp_path, chosen) == []
    assert outcome(run(tmp_path, chosen)).text == "found"


def test_the_streams_have_separate_limits_and_cuts_are_counted(tmp_path: Path) -> None:
    code = "import sys; sys.stdout.write('o' * 50_000); sys.stderr.write('é' * 10_000)"
    events = run(tmp_path, python(code), Limits(wall=60, idle=60, kept_bytes=30_001))
    assert output(events) == "o" * 30_001
    assert output(events, "err") == "é" * 10_000 + "\n"
    cuts = [event for event in of(events, AgentOutput) if event.cut_bytes]
    assert cuts == [AgentOutput("out", cut_bytes=19_999)]


def test_bytes_that_are_no_text_do_no_harm(tmp_path: Path) -> None:
    code = "import sys; sys.stdout.buffer.write(b'a\\x00b\\xff\\xfec\\r\\nd')"
    events = as_stored(run(tmp_path, python(code)))
    assert output(events).startswith("ab\ufffd")
    assert "\0" not in outcome(events).text
