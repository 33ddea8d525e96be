"""`segue run` without settings: it finds tasks, agent, checks and judge, shows them, and asks once."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
from pathlib import Path

import pytest

from segue.cli.terminal.output import AGENT_VARIABLES
from tests.cli.place import DEADLINE, Place
from tests.cli.test_spec import SPEC, TASKS
from tests.shebang import shebang

_CLAUDE_ANSWER = {
    **{"type": "result", "subtype": "success", "is_error": False, "session_id": "s"},
    **{"terminal_reason": "completed", "total_cost_usd": 0.25, "num_turns": 1, "permission_denials": []},
    "modelUsage": {},
}
_TOOLS = ("git", "sh", "make", "touch", "true", "cat", "env", "bwrap")
_CODEX_USAGE = {"input_tokens": 10, "cached_input_tokens": 0, "output_tokens": 5}
_PROGRAM = """{shebang}
import json, re, sys
words = sys.argv[1:]
if words == ["--version"]:
    print({version!r})
elif "status" in words:
    print({status!r})
else:
    streams = "--input-format" in words
    prompt = json.loads(sys.stdin.readline())["message"]["content"] if streams else sys.stdin.read()
    if not {{"dontAsk", "read-only"}} & set(words):
        open(f"work-{{len(prompt)}}", "w").write("x")
    keys = dict.fromkeys(re.findall(r"(?m)^- (\\S+?):? ", prompt))
    said = {{"status": "PASS", "notes": "", "criteria": [
        {{"key": key, "status": "met", "reason": "seen", "evidence": []}} for key in keys]}}
    for line in {lines!r}:
        print(line.replace("SAID", json.dumps(json.dumps(said))[1:-1]))
"""
_ANSWERS = {
    "claude": ("2.1.0 (Claude Code)", [json.dumps({**_CLAUDE_ANSWER, "result": "SAID"})]),
    "codex": (
        "codex-cli 0.166.0",
        [
            json.dumps({"type": "thread.started", "thread_id": "t"}),
            json.dumps({"type": "item.completed", "item": {"type": "agent_message", "text": "SAID"}}),
            json.dumps({"type": "turn.completed", "usage": _CODEX_USAGE}),
        ],
    ),
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A repository with a plan of one task, and no settings."""
    return Place.make(tmp_path, plan="# Plan\n\n## Task 1\nWrite one.\n")


def install(place: Place, *names: str, logged_in: bool = True) -> None:
    """Put stand-ins for agents on the PATH, and nothing else that could be one."""
    folder = place.root / "bin"
    folder.mkdir(exist_ok=True)
    for name in names:
        version, lines = _ANSWERS[name]
        said = {True: '{"loggedIn": true} Logged in', False: '{"loggedIn": false} Not logged in'}[logged_in]
        text = _PROGRAM.format(shebang=shebang("-IS"), version=version, status=said, lines=lines)
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    for name in filter(shutil.which, _TOOLS):
        if not (folder / name).exists():
            (folder / name).symlink_to(str(shutil.which(name)))
    place.env["PATH"] = str(folder)
    for name in [*place.env]:
        if name.endswith(("_API_KEY", "_TOKEN")):
            del place.env[name]


def answer(
    place: Place, *answers: tuple[bytes, bytes], args: tuple[str, ...] = ("run",), code: int = 0
) -> str:
    """Run `segue` at a terminal, and answer each question when it is asked."""
    env = {name: value for name, value in place.env.items() if name not in AGENT_VARIABLES}
    ours, theirs = pty.openpty()
    command = place.command(*args)
    process = subprocess.Popen(
        command, cwd=place.repo, env={**env, "TERM": "xterm"}, stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    seen = b""
    for question, said in answers:
        rest = seen
        while question not in rest:
            piece = os.read(ours, 65536)
            seen, rest = seen + piece, rest + piece
        os.write(ours, said + b"\n")
    try:
        while piece := os.read(ours, 65536):
            seen += piece
    except OSError:
        pass  # what Linux says when the other end is closed
    os.close(ours)
    assert process.wait(DEADLINE) == code, seen.decode()
    return seen.decode()


@pytest.mark.parametrize("agent", ["claude", "codex"])
def test_whoever_is_installed_does_the_work(place: Place, agent: str) -> None:
    install(place, agent)
    done = place.segue("run", "--yes")
    assert f"agent     {agent}" in done.stderr
    assert "no history yet" in done.stderr
    assert len(place.subjects()) == 1
    again = place.segue("run", "--yes")
    assert again.stdout.strip() == "No pending tasks to process."
    assert "Start over with all of them: segue run --restart" in again.stderr


def test_the_agent_judges_a_feature_when_no_key_is_set(place: Place) -> None:
    agent = "codex"
    install(place, agent)
    folder = place.repo / "specs" / "001-greeting"
    folder.mkdir(parents=True)
    (folder / "tasks.md").write_text(TASKS)
    (folder / "spec.md").write_text(SPEC)
    place.git("add", "--all")
    place.git("commit", "--quiet", "-m", "feature")
    place.config(f'agent = "{agent}"\n')
    done = place.segue("run", "specs/001-greeting", "--task", "T001", code=None)
    assert "The agent also judges: OPENAI_API_KEY is not set" in done.stderr
    (verify,) = place.rows("select key from orchestrator_steps where phase = 'verify' limit 1")
    assert verify == ("task/T001/verify/1",)
    stored = json.loads(place.rows("select spec from orchestrator_runs")[0][0])
    assert stored["settings"]["judged_by"] == "agent"
    refused = place.segue("run", "specs/001-greeting", "--judge", "llm", code=4)
    assert "--judge agent" in refused.stderr


def test_without_a_terminal_nothing_starts_unless_yes_is_said(place: Place) -> None:
    install(place, "claude")
    (place.repo / "Makefile").write_text("test:\n\ttouch ran\n")
    place.git("add", "--all")
    place.git("commit", "--quiet", "-m", "tests")
    done = place.segue("run", code=2)
    assert "make test (the target `test` of Makefile)" in done.stderr
    assert "segue run plan.md --agent claude" in done.stderr
    assert not place.database.exists()
    assert not (place.repo / "ran").exists()
    records = [json.loads(line) for line in place.segue("run", "--yes", "--json").stdout.splitlines()]
    assert records[0] == {"type": "found", "source": "plan.md", "agent": "claude", "checks": ["make test"]}
    ((made,),) = place.rows("select data from orchestrator_events where type = 'contract'")
    assert json.loads(made)["checks"] == ["make test"]


def test_several_sources_are_listed_and_none_says_what_was_looked_for(place: Place) -> None:
    install(place, "claude")
    (place.repo / "docs").mkdir()
    (place.repo / "docs" / "later.md").write_text("## Task 1\nLater.\n")
    (place.repo / "README.md").write_text("- [ ] a box of no plan\n")
    done = place.segue("run", "--yes", code=2)
    assert "docs/later.md" in done.stderr
    assert "plan.md" in done.stderr
    assert "README" not in done.stderr
    (place.repo / "docs" / "later.md").unlink()
    assert "Write one." in place.segue("run", "--dry-run").stdout
    (place.repo / "plan.md").unlink()
    done = place.segue("run", code=2)
    assert "Looked for" in done.stderr
    assert 'segue run "Build' in done.stderr


def test_agents_that_are_not_ready_are_named_with_the_fix(place: Place) -> None:
    install(place)
    done = place.segue("run", code=5)
    assert "npm install -g @anthropic-ai/claude-code" in done.stderr
    assert "segue rehearse plan.md" in done.stderr
    install(place, "codex", logged_in=False)
    done = place.segue("run", code=4)
    assert "codex login" in done.stderr
    assert "claude" not in done.stderr


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, "pytest -q"),
        ({"tests/test_a.py": "", "package.json": "{}"}, "pytest -q"),
        ({"package.json": '{"scripts": {"test": "jest"}}'}, "npm run test"),
        ({"package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'}, None),
        ({"package.json": "[1", "Cargo.toml": "[package]\nname = 'x'\n"}, "cargo test"),
        ({"go.mod": "module x\n"}, "go test ./..."),
        ({"Makefile": "all:\n\ntest: all\n\ttrue\n"}, "make test"),
        ({}, None),
    ],
)
def test_the_command_for_the_tests_is_read_from_files(
    tmp_path: Path, files: dict[str, str], command: str | None
) -> None:
    from segue.runtime.first_run import suggest_check

    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = suggest_check(tmp_path)
    assert (found and found.command) == command
