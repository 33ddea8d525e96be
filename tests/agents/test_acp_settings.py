"""Agents that only segue.toml knows: a table makes one, a wrong table is a clear error."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest

from segue.agents.acp.profiles import Profile
from segue.domain.options import read_options
from tests.cli.place import Place
from tests.fakes.acp import read_log, write_programs

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "agents.md"
MINE = """
agent = "mine"
[acp.mine]
argv = ["qwen", "--acp"]
modes = { plan = "plan", edit = "default", ask = "plan" }
permissions = { edit = "edits" }
[agents.mine]
extra_args = ["--debug"]
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place.make(tmp_path)
    write_programs(tmp_path / "bin")
    made.env["PATH"] = f"{tmp_path / 'bin'}{os.pathsep}{made.env['PATH']}"
    return made


def test_a_plan_is_carried_by_an_agent_from_a_table(place: Place) -> None:
    place.config(MINE)
    listed = place.agents()
    assert listed["mine"]["ready"] is True
    assert listed["mine"]["can"] == ["edits", "plan_mode", "ask_mode", "follow_up", "streams"]
    place.segue("run", "plan.md", "--task", "1")
    assert len(place.subjects()) == 1
    assert [line["argv"] for line in read_log(place.root / "bin" / "acp.toml", "launch")] == [
        ["--acp", "--debug"]
    ]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[acp.gemini]\nargv = ['x']\n", "acp.gemini (from {file}) has the name of an agent that exists."),
        ("[acp.mine]\ntitle = 'x'\n", "acp.mine.argv: is required (from {file})"),
        (
            "[agents.gemini]\nforce = true\n",
            "agents.gemini.force: is not an option (from {file})",
        ),
    ],
)
def test_a_wrong_table_is_a_clear_error(place: Place, text: str, complaint: str) -> None:
    place.config(text)
    said = place.segue("run", "plan.md", "--agent", "gemini", code=2).stderr
    assert complaint.replace("{file}", str(place.root / "segue.toml")) in said
    assert "Traceback" not in said


def test_the_example_of_the_page_is_a_profile() -> None:
    tables = re.findall(r"^```toml\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    (example,) = [tomllib.loads(text)["acp"] for text in tables if "[acp." in text]
    assert [read_options(Profile, profile).argv[0] for profile in example.values()] == ["goose"]
