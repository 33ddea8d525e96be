"""What the page of the simulators says about those of the part."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from segue.parts.clouds.sim.claude import CLAUDE
from segue.parts.clouds.sim.script import SessionScript
from segue.sim.script import check_script

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "simulators.md").read_text("utf-8")


def test_controls_and_words_are_explained() -> None:
    spans = {span.partition(" ")[2] for span in re.findall(r"`([^`\n]+)`", PAGE)}
    paths = {path for route in CLAUDE.build_app().routes if (path := getattr(route, "path", ""))}
    assert {path for path in paths if path.startswith("/_sim/")} <= spans


def test_the_script_can_be_played() -> None:
    [text] = re.findall(r"^```toml sessions\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    check_script(tomllib.loads(text), SessionScript)
