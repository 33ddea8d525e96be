"""What `segue doctor` knows of agents, and `segue try`."""

from __future__ import annotations

import json
import os
import signal
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


def test_doctor_says_where_which_version_and_logged_in_how(place: Place) -> None:
    claude(place)
    program(place, "codex", "codex-cli 0.166.0", "Not logged in")
    program(place, "cursor-agent", "something else 1.0")
    listed = place.agents()
    found = listed["claude"]
    assert (found["ready"], found["version"], found["login"]) == (True, "2.1.325", "logged in")
    assert found["program"] == str(place.root / "bin" / "claude")
    assert "follow_up" in found["can"]
    assert (listed["codex"]["version"], listed["codex"]["login"]) == ("0.166.0", None)
    assert "CODEX_API_KEY" in listed["codex"]["fix"]
    assert "is not the Cursor CLI" in listed["cursor"]["problems"][0]
    assert listed["cursor"]["program"] == str(place.root / "bin" / "cursor-agent")
    assert "CURSOR_API_KEY" in listed["cursor-cloud"]["problems"][0]
    assert listed["scripted"]["version"]


def test_a_key_is_named_and_never_shown(place: Place) -> None:
    claude(place)
    place.env |= {"ANTHROPIC_API_KEY": SECRET, "CURSOR_API_KEY": "key_0123456789abcdef"}
    done = place.segue("doctor", "--agents", code=None)
    assert "ANTHROPIC_API_KEY" in done.stdout
    assert SECRET not in done.stdout
    listed = place.agents()
    assert (listed["claude"]["login"], listed["cursor-cloud"]["login"]) == (
        "ANTHROPIC_API_KEY",
        "CURSOR_API_KEY",
    )


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
    done = place.segue("try", "claude", "Write hello.txt")
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
    data = place.json("try", "claude", "Write hello.txt", "--keep", str(kept))
    assert (data["ok"], data["exit_code"], data["failure"]) == (True, 0, None)
    assert data["usage"] == {"input_tokens": 100, "output_tokens": 20, "cost_usd": 0.25, "cached_tokens": 0}
    assert data["events"][0]["type"] == "agent.started"
    assert data["events"][-1]["type"] == "agent.ended"
    assert (kept / "repo" / "hello.txt").read_text() == "hello"
    assert json.loads(Path(data["stdout"]).read_text()) == RESULT
    assert Path(data["stderr"]).read_text() == "[redacted]\n", "secrets stay secret in the raw output too"
    again = place.segue("try", "claude", "Again", "--keep", str(kept), code=2)
    assert "is not empty" in again.stderr


def test_a_failure_keeps_its_folder_and_has_a_kind(place: Place, temporary: Path) -> None:
    place.script('[[on]]\nstderr = "HTTP 401 Unauthorized"\nexit_code = 1\n')
    done = place.segue("try", "scripted", "x", "--config", str(place.root / "segue.toml"), code=4)
    assert "scripted failed (auth)" in done.stdout
    (folder,) = tries(place)
    assert (folder / "stderr").read_text() == "HTTP 401 Unauthorized\n"
    assert str(folder / "stdout") in done.stdout


def test_an_interrupted_trial_leaves_no_process(place: Place, temporary: Path) -> None:
    place.script("[[on]]\nhang = true\n")
    process = place.start("try", "scripted", "x")
    marker = f"SEGUE_JOB_FOLDER={temporary}"
    until(lambda: [*processes_with(marker)], "the agent works")
    process.send_signal(signal.SIGINT)
    assert process.wait(DEADLINE) == 130
    until(lambda: not [*processes_with(marker)], "the agent has ended")
