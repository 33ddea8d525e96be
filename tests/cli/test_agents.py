"""`segue agent list`, `segue doctor` and `segue agent try`: what is known of agents, and trying them out."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.place import DEADLINE, Place, processes_with, until
from tests.shebang import shebang

SECRET = "sk-ant-0123456789abcdef"
RESULT = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "Wrote it.",
    "total_cost_usd": 0.25,
    "modelUsage": {"m": {"inputTokens": 100, "outputTokens": 20}},
}
_PROGRAM = """{shebang}
import os, sys, time
from pathlib import Path
calls = Path({folder!r}) / "calls"
with calls.open("a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
time.sleep({slow})
if sys.argv[1:] == ["--version"]:
    print({version!r})
elif "status" in sys.argv:
    print({status!r})
else:
    sys.stdin.readline()
    {work}
    print({result!r})
    print(os.environ.get("ANTHROPIC_API_KEY"), file=sys.stderr)
"""


def program(place: Place, name: str, version: str, status: str = "", slow: float = 0, work: str = "") -> Path:
    """Put a stand-in for a command line on the PATH; where it writes down its calls."""
    folder = place.root / f"of-{name}"
    folder.mkdir()
    (place.root / "bin").mkdir(exist_ok=True)
    path = place.root / "bin" / name
    text = _PROGRAM.format(
        shebang=shebang(),
        folder=str(folder),
        version=version,
        status=status,
        slow=slow,
        work=work or "pass",
        result=json.dumps(RESULT),
    )
    path.write_text(text)
    path.chmod(0o755)
    place.env["PATH"] = f"{place.root / 'bin'}:{os.environ['PATH']}"
    return folder / "calls"


def claude(place: Place, **more: Any) -> Path:
    return program(place, "claude", "2.1.325 (Claude Code)", '{"loggedIn": true}', **more)


@pytest.fixture(autouse=True)
def no_keys(place: Place) -> None:
    for name in [*place.env]:
        if name.startswith(("ANTHROPIC_", "CLAUDE", "CODEX_", "CURSOR_", "OPENAI_")):
            del place.env[name]


def test_the_list_says_where_which_version_and_logged_in_how(place: Place) -> None:
    calls = claude(place)
    program(place, "codex", "codex-cli 0.166.0", "Not logged in")
    program(place, "cursor-agent", "something else 1.0")
    listed = {agent["name"]: agent for agent in place.json("agent", "list")}
    found = listed["claude"]
    assert (found["ready"], found["version"], found["login"]) == (True, "2.1.325", "logged in")
    assert found["program"] == str(place.root / "bin" / "claude")
    assert "follow_up" in found["can"]
    assert calls.read_text().splitlines() == ["--version", "auth status --json"], "each question once"
    assert (listed["codex"]["version"], listed["codex"]["login"]) == ("0.166.0", None)
    assert "CODEX_API_KEY" in listed["codex"]["fix"]
    assert "is not the Cursor CLI" in listed["cursor"]["problems"][0]
    assert listed["cursor"]["program"] == str(place.root / "bin" / "cursor-agent")
    assert "CURSOR_API_KEY" in listed["cursor-cloud"]["problems"][0]
    assert listed["scripted"]["version"]


def test_a_key_is_named_and_never_shown(place: Place) -> None:
    claude(place)
    place.env |= {"ANTHROPIC_API_KEY": SECRET, "CURSOR_API_KEY": "key_0123456789abcdef"}
    done = place.segue("agent", "list")
    assert "ANTHROPIC_API_KEY" in done.stdout
    assert SECRET not in done.stdout
    listed = {agent["name"]: agent for agent in place.json("agent", "list")}
    assert (listed["claude"]["login"], listed["cursor-cloud"]["login"]) == (
        "ANTHROPIC_API_KEY",
        "CURSOR_API_KEY",
    )


@pytest.mark.thorough
def test_doctor_says_it_too(place: Place) -> None:
    claude(place)
    done = place.segue("doctor", "--agents")
    line = next(line for line in done.stdout.splitlines() if "agent claude" in line)
    assert "2.1.325 · logged in · " in line
    assert "plans, judges, continues a conversation" in done.stdout
    findings = {finding["what"]: finding for finding in place.json("doctor")["checks"]}
    assert findings["agent claude"]["agent"]["version"] == "2.1.325"
    assert findings["git"]["agent"] is None


@pytest.mark.thorough
def test_agents_are_asked_side_by_side(place: Place) -> None:
    """Each stand-in waits until all three have been asked for their version."""
    names = {
        "claude": "2.1.325 (Claude Code)",
        "codex": "codex-cli 0.166.0",
        "cursor-agent": "2026.07.01-abc",
    }
    logs = [place.root / f"of-{name}" / "calls" for name in names]
    for name, version in names.items():
        program(place, name, version)
        path = place.root / "bin" / name
        wait = f"while not all(Path(p).exists() for p in {[*map(str, logs)]}): time.sleep(0.01)"
        path.write_text(path.read_text().replace("time.sleep(0)", wait))
    listed = {agent["name"]: agent["version"] for agent in place.json("agent", "list")}
    assert (listed["claude"], listed["codex"], listed["cursor"]) == ("2.1.325", "0.166.0", "2026.07.01-abc")


def test_the_tables_fit_a_terminal_of_100_columns(place: Place) -> None:
    claude(place)
    place.env |= {"COLUMNS": "100", "TERM": "xterm", "ANTHROPIC_API_KEY": SECRET}
    for name in ("AI_AGENT", "AGENT", "CLAUDECODE", "NO_COLOR"):
        place.env.pop(name, None)
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", closefd=True) as terminal:
        done = subprocess.Popen(
            place.command("agent", "list", "--color", "never"),
            cwd=place.repo,
            env=place.env,
            stdout=theirs,
            stdin=subprocess.DEVNULL,
        )
        os.close(theirs)
        shown = b""
        while piece := _read(terminal.fileno()):
            shown += piece
        assert done.wait(DEADLINE) == 0
    lines = shown.decode().splitlines()
    assert max(map(len, lines)) <= 100
    row = next(line for line in lines if line.startswith("  claude "))
    assert row.split(" · ")[:2] == ["  claude         2.1.325", "ANTHROPIC_API_KEY"]
    assert row.rstrip().endswith("bin/claude")
    assert lines.index(row) < lines.index("Not installed"), "what is ready comes first"


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:
        return b""  # what Linux says when the other end is closed


def tries(place: Place) -> list[Path]:
    return sorted((place.root / "tmp").iterdir())


@pytest.fixture
def temporary(place: Place) -> Path:
    """A folder of its own for temporary files, so that what is left can be seen."""
    folder = place.root / "tmp"
    folder.mkdir()
    place.env["TMPDIR"] = str(folder)
    return folder


def test_trying_an_agent_shows_events_diff_and_usage(place: Place, temporary: Path) -> None:
    claude(place, work='Path("hello.txt").write_text("hello")')
    before = place.git("status", "--porcelain"), place.git("rev-parse", "HEAD")
    done = place.segue("agent", "try", "claude", "Write hello.txt")
    assert "agent started: claude" in done.stderr
    assert "Wrote it." in done.stdout
    assert "+++ b/hello.txt\n" in done.stdout
    assert "+hello" in done.stdout
    assert "100 tokens in, 20 out, $0.2500" in done.stdout
    assert "--keep DIR" in done.stdout
    assert tries(place) == []
    assert (place.git("status", "--porcelain"), place.git("rev-parse", "HEAD")) == before


def test_what_was_tried_can_be_kept(place: Place, temporary: Path) -> None:
    claude(place, work='Path("hello.txt").write_text("hello")')
    place.env["ANTHROPIC_API_KEY"] = SECRET
    kept = place.root / 'a "new" földer'
    data = place.json("agent", "try", "claude", "Write hello.txt", "--keep", str(kept))
    assert (data["ok"], data["exit_code"], data["failure"]) == (True, 0, None)
    assert data["usage"] == {"input_tokens": 100, "output_tokens": 20, "cost_usd": 0.25, "cached_tokens": 0}
    assert data["events"][0]["type"] == "agent.started"
    assert data["events"][-1]["type"] == "agent.ended"
    assert (kept / "repo" / "hello.txt").read_text() == "hello"
    assert json.loads(Path(data["stdout"]).read_text()) == RESULT
    assert Path(data["stderr"]).read_text() == "[redacted]\n", "secrets stay secret in the raw output too"
    again = place.segue("agent", "try", "claude", "Again", "--keep", str(kept), code=2)
    assert "is not empty" in again.stderr


def test_a_failure_keeps_its_folder_and_has_a_kind(place: Place, temporary: Path) -> None:
    place.script('[[on]]\nstderr = "HTTP 401 Unauthorized"\nexit_code = 1\n')
    done = place.segue("agent", "try", "scripted", "x", "--config", str(place.root / "segue.toml"), code=4)
    assert "scripted failed (auth)" in done.stdout
    (folder,) = tries(place)
    assert (folder / "stderr").read_text() == "HTTP 401 Unauthorized\n"
    assert str(folder / "stdout") in done.stdout


@pytest.mark.parametrize(
    ("script", "kind", "code"),
    [
        ("exit_code = 7", "crash", 3),
        ('limit = "You\'ve hit your usage limit."', "usage_limit", 3),
        ("hang = true", "timeout", 124),
    ],
)
def test_the_exit_codes_of_a_trial(place: Place, temporary: Path, script: str, kind: str, code: int) -> None:
    place.script(f"[[on]]\n{script}\n")
    place.env |= {"SEGUE_LIMITS__PHASE_TIMEOUT": "1", "SEGUE_LIMITS__KILL_GRACE": "0.2"}
    data = place.json("agent", "try", "scripted", "x", code=code)
    assert (data["failure"]["kind"], data["exit_code"], data["kept"]) == (kind, code, str(tries(place)[0]))


@pytest.mark.thorough
def test_other_agents_can_be_tried(place: Place, temporary: Path) -> None:
    place.segue("sim", "bin", str(place.root / "bin"))
    place.env["PATH"] = f"{place.root / 'bin'}:{os.environ['PATH']}"
    place.env["SEGUE_SIM_LOGGED_IN"] = "1"
    data = place.json("agent", "try", "cursor", "Plan it", "--mode", "plan")
    assert data["text"]
    assert data["diff"] == ""
    place.env["SEGUE_AGENTS__COMMAND__ARGV"] = '["cat"]'
    assert place.json("agent", "try", "command", "Hello, Jürgen!")["text"] == "Hello, Jürgen!"
    assert "has no plan mode" in place.segue("agent", "try", "command", "x", "--mode", "plan", code=2).stderr


def test_a_plan_that_writes_is_found_out(place: Place, temporary: Path) -> None:
    claude(place, work='Path("sly.txt").write_text("x")')
    data = place.json("agent", "try", "claude", "Plan it", "--mode", "plan", code=3)
    assert data["failure"]["kind"] == "plan_edited"
    assert "sly.txt" in data["diff"]


def test_what_cannot_be_tried(place: Place, temporary: Path) -> None:
    assert "hosted repository" in place.segue("agent", "try", "cursor-cloud", "x", code=2).stderr
    assert "was not found" in place.segue("agent", "try", "codex", "x", code=5, PATH="/usr/bin").stderr
    assert "There is no agent" in place.segue("agent", "try", "nobody", "x", code=2).stderr
    assert "empty" in place.segue("agent", "try", "scripted", "  ", code=2).stderr
    assert tries(place) == []


def test_an_agent_that_destroys_the_repository(place: Place, temporary: Path) -> None:
    place.env["SEGUE_AGENTS__COMMAND__ARGV"] = '["rm", "-rf", ".git"]'
    done = place.segue("agent", "try", "command", "x", code=2)
    (folder,) = tries(place)
    assert str(folder) in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_trial_leaves_no_process(place: Place, temporary: Path, number: int) -> None:
    place.script("[[on]]\nhang = true\n")
    process = place.start("agent", "try", "scripted", "x")
    marker = f"SEGUE_JOB_FOLDER={temporary}"
    until(lambda: [*processes_with(marker)], "the agent works")
    process.send_signal(number)
    assert process.wait(DEADLINE) == 130
    until(lambda: not [*processes_with(marker)], "the agent has ended")


def test_the_users_hooks_and_signing_have_no_say(place: Place, temporary: Path) -> None:
    hooks = place.root / "hooks"
    hooks.mkdir()
    (hooks / "pre-commit").write_text("#!/bin/sh\nexit 1\n")
    (hooks / "pre-commit").chmod(0o755)
    config = f"[core]\nhooksPath = {hooks}\n[commit]\ngpgsign = true\n"
    (place.root / "home" / ".gitconfig").write_text(config)
    assert place.json("agent", "try", "scripted", "x")["ok"]


@pytest.mark.thorough
def test_a_prompt_of_ten_megabytes_comes_by_stdin(place: Place, temporary: Path) -> None:
    place.env["SEGUE_AGENTS__COMMAND__ARGV"] = '["wc", "-c"]'
    done = subprocess.run(
        place.command("agent", "try", "command", "-", "--json"),
        cwd=place.repo,
        env=place.env,
        input=b"x" * 10_000_000,
        capture_output=True,
        timeout=DEADLINE,
    )
    assert json.loads(done.stdout)["data"]["text"] == "10000000"
