"""The tools by which agents over ACP end their task: they start our server in their sandbox."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from segue.domain.errors import UsageError
from segue.domain.exits import Citation, HonestExit, find_exit
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


def test_the_tool_takes_only_evidence_that_is_there(tmp_path: Path) -> None:
    if not find_server():
        pytest.skip("needs the extra mcp")
    from segue.parts.mcp.exits import CitedPlace, ExitTools

    (tmp_path / "test_a.py").write_text("assert f() == 1\n")
    tools = ExitTools(tmp_path)

    def say(*evidence: CitedPlace) -> str:
        return asyncio.run(tools.cannot("It is both.", list(evidence)))

    for wrong in ("assert f() == 2", ""):
        with pytest.raises(UsageError, match=r"That does not show it: test_a\.py"):
            say(CitedPlace(file="test_a.py", quote=wrong))
    with pytest.raises(UsageError, match="there is no file"):
        say(CitedPlace(file="../secret", line=1), CitedPlace(quote="Words of the task."))
    found = Citation("test_a.py", 1, "assert f() == 1")
    said = say(CitedPlace(file=found.file, line=found.line, quote=found.quote))
    assert find_exit(said) == HonestExit("It is both.", evidence=(found,))
    assert find_exit(asyncio.run(tools.ask_person("a or b?"))) == HonestExit(question="a or b?")
