"""The scripted agent: a real process that does what its script says."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from segue.agents.scripted.agent import ScriptedAgent, ScriptedOptions
from segue.domain.errors import UsageError
from segue.domain.events import AgentOutput, AgentStarted, AgentText, AgentTool, AgentUsage
from segue.domain.job import Job, Limits, Mode, Prompt
from segue.domain.outcome import FailureKind, Outcome, Usage
from segue.domain.task import Task
from segue.prompts.task import execute_prompt
from segue.system.process.processes import Processes
from tests.agents.items import Items, failure, is_at_work, lend, of, outcome

SECRET = "sk-not-for-your-eyes-0123456789"
PROMPT = execute_prompt(Task("2", "Say hello", ""), "", nonce="test")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    path = tmp_path / "repo"
    path.mkdir()
    git(path, "init", "--quiet")
    who = ("-c", "user.name=T", "-c", "user.email=t@localhost")
    git(path, *who, "commit", "--quiet", "--allow-empty", "-m", "Start")
    return path


def git(repo: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=repo, check=True, capture_output=True, text=True).stdout


def play(
    repo: Path,
    script: str | None = None,
    *,
    mode: Mode = Mode.EDIT,
    attempt: int = 1,
    task: str = "2",
    limits: Limits | None = None,
    token: str = "token",
    prompt: Prompt = PROMPT,
) -> Items:
    path = None
    if script is not None:
        path = repo.parent / "script.toml"
        path.write_text(script)
    labels = {"run": "r", "task": task, "phase": "execute", "attempt": str(attempt)}
    job = Job(token, prompt, repo, mode, limits=limits or Limits(wall=60, idle=60, grace=0.5), labels=labels)

    async def collect() -> Items:
        async with Processes(repo.parent / f"run-{token}") as processes:
            agent = ScriptedAgent(ScriptedOptions(script=path), lend(processes, SECRET))
            return [event async for event in agent.run(job)]

    return asyncio.run(collect())


def output(events: Items, stream: str = "out") -> str:
    return "".join(event.text for event in of(events, AgentOutput) if event.stream == stream)


def test_without_a_script_it_writes_the_same_note_each_time(repo: Path) -> None:
    events = play(repo, task="US1/T 3")
    note = repo / "notes" / "task-US1-T-3.md"
    first = note.read_text()
    assert failure(events) is None
    assert PROMPT.digest in first
    note.unlink()
    play(repo, task="US1/T 3", token="again")
    assert note.read_text() == first
    other = execute_prompt(Task("2", "Something else", ""), "", nonce="test")
    play(repo, task="US1/T 3", token="other", prompt=other)
    assert note.read_text() != first


def test_events_tell_what_it_did(repo: Path) -> None:
    script = """
    [[on]]
    say = "Hello from {task}/{attempt} {other}"
    write = { "a/b.txt" = "task {task}, attempt {attempt}, {brace}" }
    usage = { input_tokens = 10, output_tokens = 5, cost_usd = 0.25 }
    """
    events = play(repo, script, attempt=3)
    assert (repo / "a" / "b.txt").read_text() == "task 2, attempt 3, {brace}"
    types = [type(item) for item in events]
    assert types == [
        AgentStarted,
        AgentText,
        AgentTool,
        AgentUsage,
        Outcome,
    ]
    assert [tool.name for tool in of(events, AgentTool)] == ["Write"]
    assert outcome(events).text == "Hello from 2/3 {other}"
    assert outcome(events).usage == Usage(10, 5, 0.25)
    assert outcome(events).exit_code == 0


def test_the_first_entry_that_fits_is_played(repo: Path) -> None:
    script = """
    [[on]]
    task = "1"
    say = "one"
    [[on]]
    phase = "plan"
    say = "plan"
    [[on]]
    task = 2
    attempt = 1
    say = "first try"
    [[on]]
    task = "2"
    say = "later"
    """
    assert outcome(play(repo, script, token="a")).text == "first try"
    assert outcome(play(repo, script, token="b", attempt=2)).text == "later"
    assert "done" in outcome(play(repo, script, token="c", task="9")).text
    assert (repo / "notes" / "task-9.md").exists()


def test_append_delete_and_commit(repo: Path) -> None:
    (repo / "log").write_text("old\n")
    (repo / "gone").write_text("x")
    script = '[[on]]\nappend = { "log" = "new\\n" }\ndelete = ["gone"]\ncommit = "By {task}"\n'
    assert failure(play(repo, script)) is None
    assert (repo / "log").read_text() == "old\nnew\n"
    assert not (repo / "gone").exists()
    assert git(repo, "log", "-1", "--format=%s").strip() == "By 2"
    assert git(repo, "status", "--porcelain") == ""


def test_commands_run_in_the_workspace_after_the_files_are_written(repo: Path) -> None:
    write = 'write = { "a b" = "1" }'
    assert failure(play(repo, f"""[[on]]\n{write}\nrun = ["mv 'a b' c", ["cp", "c", "d e"]]\n""")) is None
    assert not (repo / "a b").exists()
    assert (repo / "d e").read_text() == "1"
    assert failure(play(repo, '[[on]]\nrun = "rm c"\n', token="b")) is None
    assert not (repo / "c").exists()
    assert outcome(play(repo, '[[on]]\nrun = ["false"]\n', token="c")).exit_code == 1


@pytest.mark.parametrize("mode", [Mode.PLAN, Mode.ASK])
def test_plan_and_ask_edit_nothing(repo: Path, mode: Mode) -> None:
    script = '[[on]]\nwrite = { "x" = "y" }\ncommit = "no"\nplan = "1. Do {task}."\nsay = "Because."\n'
    head = git(repo, "rev-parse", "HEAD")
    events = play(repo, script, mode=mode)
    assert failure(events) is None
    assert outcome(events).text == ("1. Do 2." if mode is Mode.PLAN else "Because.")
    assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "rev-parse", "HEAD") == head


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("exit_code = 3", FailureKind.CRASH),
        ("no_result = true", FailureKind.NO_RESULT),
        ('limit = "You\'ve hit your usage limit. Try again in 2 hours."', FailureKind.USAGE_LIMIT),
        ('stderr = "Error: Authentication required."\nexit_code = 1', FailureKind.AUTH),
        ('stderr = "429 Too Many Requests"\nexit_code = 1', FailureKind.RATE_LIMIT),
        ('say = "rate limit 429 handled"\nexit_code = 1', FailureKind.CRASH),
    ],
)
def test_each_way_to_fail(repo: Path, action: str, expected: FailureKind | None) -> None:
    assert failure(play(repo, f"[[on]]\n{action}\n")) is expected


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_an_orphan_does_not_outlive_the_job(repo: Path) -> None:
    token = uuid.uuid4().hex
    leave = 'run = [["sh", "-c", "setsid sleep 600 >/dev/null 2>&1 &"]]'
    assert failure(play(repo, f"[[on]]\n{leave}\n", token=token)) is None
    assert not is_at_work(f"SEGUE_JOB={token}")


KILLED = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import test_scripted
test_scripted.play(Path(sys.argv[2]), Path(sys.argv[3]).read_text(), token=sys.argv[4])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_an_agent_whose_segue_was_killed_is_adopted_and_not_started_again(repo: Path) -> None:
    token = uuid.uuid4().hex
    gate = repo.parent / "gate"
    script = f'[[on]]\nwait_for = "{gate}"\nappend = {{ "log" = "once\\n" }}\nsay = "adopted"\n'
    text = repo.parent / "text.toml"
    text.write_text(script)
    here = str(Path(__file__).parent)
    segue = subprocess.Popen([sys.executable, "-c", KILLED, here, str(repo), str(text), token])
    deadline = time.monotonic() + 120
    while not is_at_work(f"SEGUE_JOB={token}"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    segue.kill()
    segue.wait()
    gate.touch()
    events = play(repo, script, token=token)
    assert failure(events) is None
    assert outcome(events).text == "adopted"
    assert outcome(events).facts["adopted"] is True
    assert (repo / "log").read_text() == "once\n"


def test_a_link_that_leads_out_of_the_workspace_is_refused(repo: Path) -> None:
    outside = repo.parent / "outside"
    outside.mkdir()
    (repo / "link").symlink_to(outside)
    events = play(repo, '[[on]]\nwrite = { "link/x" = "y" }\n')
    assert failure(events) is FailureKind.CRASH
    assert "link/x" in str(outcome(events).failure)
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    ("script", "named"),
    [
        ("[[on]]\nwrote = 1\n", "on[1].wrote"),
        ('[[on]]\n[[on]]\ndelay = "long"\n', "on[2].delay"),
        ('[[on]]\ndelete = ["a/../../b"]\n', "on[1].delete"),
        ('[[on]]\nrun = ["ls | wc"]\n', "on[1].run"),
        ("[[on]]\nexit_code = 999\n", "on[1].exit_code"),
        ("[[on\n", "TOML"),
    ],
)
def test_a_malformed_script_is_refused_by_name(tmp_path: Path, script: str, named: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(script)
    with pytest.raises(UsageError) as error:
        ScriptedAgent(ScriptedOptions(script=path), lend(Processes(tmp_path)))
    assert named in error.value.message
    assert str(path) in error.value.message


def test_a_one_file_build_finds_the_child_behind_its_own_switch(repo: Path) -> None:
    argv = ["segue", "--segue-child", "segue.agents.scripted.child"]
    code = f"import sys; sys.argv = {argv}\nfrom segue.__main__ import main; main()"
    acts = b"print 3\nheywrite 1 2\naokexit 1\n3prompt\np"
    done = subprocess.run([sys.executable, "-c", code], cwd=repo, input=acts, capture_output=True)
    assert (done.returncode, done.stdout) == (3, b"hey")
    assert (repo / "a").read_text() == "ok"
