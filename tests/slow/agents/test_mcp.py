"""Real Claude Code that hands work to Segue over MCP, as its users configure it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest

from tests.slow.agents.conftest import Model, Real, make_real
from tests.slow.agents.install import BIN

SERVER = {"mcpServers": {"segue": {"command": sys.executable, "args": ["-m", "segue", "mcp"]}}}
WORK = '[[on]]\nphase = "execute"\nwrite = { "f{task}" = "the work of {task}" }\n'


@pytest.fixture(params=["claude"])
def real(request: pytest.FixtureRequest, tmp_path: Any, model: Model) -> Real:
    made = make_real(request.param, tmp_path, model)
    made.place.env |= {"ENABLE_TOOL_SEARCH": "false", "SEGUE_ISOLATION": "none"}
    # Some versions ask their model before they are connected, and for a title: a script knows neither.
    made.place.env |= {"MCP_CONNECTION_NONBLOCKING": "false", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    made.place.script(WORK)
    return made


def call(tool: str, **arguments: object) -> dict[str, Any]:
    """An answer of the model that calls one of Segue's tools."""
    return {"times": 1, "tool_calls": [{"name": f"mcp__segue__{tool}", "arguments": arguments}]}


def ask(real: Real, prompt: str, *args: str) -> list[dict[str, Any]]:
    """Ask Claude Code; return the lines that it prints."""
    argv = [str(BIN / "claude"), "-p", prompt, "--output-format", "stream-json", "--verbose"]
    config = ["--strict-mcp-config", "--mcp-config", json.dumps(SERVER), *args]
    done = subprocess.run(
        [*argv, *config],
        cwd=real.place.repo,
        env=real.place.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=real.place.patience,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def answers(lines: Sequence[dict[str, Any]]) -> list[tuple[bool, str]]:
    """What the tools answered, and whether that was a failure."""
    parts = [part for line in lines if line["type"] == "user" for part in line["message"]["content"]]
    found = []
    for part in parts:
        if part["type"] == "tool_result":
            content = part["content"]
            text = content if isinstance(content, str) else "".join(one.get("text", "") for one in content)
            found.append((bool(part.get("is_error")), text))
    return found


def test_claude_hands_work_over_and_reads_the_proof(real: Real) -> None:
    real.model.plays(
        call("list_sources"),
        call("start_run", source="plan.md"),
        call("wait_for_run", seconds=100),
        call("read_proof"),
        {"reply": "All three tasks are done."},
    )
    lines = ask(real, "Have Segue do the plan.", "--allowedTools", "mcp__segue")
    (server,) = lines[0]["mcp_servers"]
    assert (server["name"], server["status"]) == ("segue", "connected")
    assert {"mcp__segue__start_run", "mcp__segue__decide"} <= set(lines[0]["tools"])
    said = answers(lines)
    assert [failed for failed, _ in said] == [False] * 4, said
    assert json.loads(said[2][1])["state"] == "done"
    assert json.loads(said[3][1])["tasks"][1]["conclusion"] == "changed, not verified"
    assert lines[-1]["result"] == "All three tasks are done."
    assert real.place.subjects() == ["Task 1: Write one.", "Task 2: Write two.", "Task 3: Write three."]
