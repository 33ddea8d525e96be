"""The tools by which agents over ACP end their task: they start our server in their sandbox."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from segue.parts.mcp.offer import find_server
from segue.parts.sim.launchers import write_launchers
from tests.cli.place import Place
from tests.isolation.means import each, run_by

ASKS = """
[[on]]
tools = [{ name = "ask_person", arguments = { question = "a or b?" } }]
write = {}
say = "I have asked."
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A project whose agent is a simulated Gemini."""
    place = Place.make(tmp_path, "## Task 1\nChoose a letter.\n")
    place.use_sandbox()
    write_launchers(place.root / "bin")
    (place.repo / "acp.toml").write_text(ASKS)
    place.env |= {"PATH": f"{place.root / 'bin'}:{place.env['PATH']}", "GEMINI_API_KEY": "made-up"}
    place.env["SEGUE_SIM_ACP"] = str(place.repo / "acp.toml")
    place.config('agent = "gemini"\n')
    place.git("add", ".")
    place.git("commit", "-qm", "Set up")
    return place


@pytest.mark.parametrize("means", each("bwrap"))
def test_an_agent_over_acp_asks_by_a_tool(place: Place, means: str) -> None:
    if not find_server():
        pytest.skip("needs the extra mcp")
    done = run_by(means, place, "run", "plan.md")
    assert done.returncode == 3, done.stderr
    lines = [json.loads(line) for line in (place.repo / "acp.toml.state").read_text().splitlines()]
    answers = [line["answer"] for line in lines if line["type"] == "tool"]
    assert "End your turn now" in str(answers), done.stdout
    assert "a or b?" in place.json("status", "last")["tasks"][0]["reason"]
