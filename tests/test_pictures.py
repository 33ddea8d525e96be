"""The pictures in the documentation show what the current code shows: their texts are compared."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from docs import illustrate, page_pictures
from docs.svg import draw_terminal, read_texts

ROOT = Path(__file__).parents[1]


def test_every_picture_is_there_and_used() -> None:
    pages = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *(ROOT / "docs").rglob("*.md")]
    used = {name for page in pages for name in re.findall(r"pictures/([\w-]+\.\w+)", page.read_text("utf-8"))}
    stored = {path.name for path in illustrate.PICTURES.iterdir()} - {"run.txt"}
    assert used == stored


def test_the_picture_of_the_layers_is_current() -> None:
    svg = illustrate.draw_layers()
    assert {"cli", "flow", "domain"} <= set(read_texts(svg))
    assert illustrate.compare({"architecture": svg}) == [], "run `make pictures`"


def test_a_picture_that_says_something_else_is_seen() -> None:
    other = draw_terminal(["\x1b[31mNothing was proven.\x1b[0m"], "other")
    assert read_texts(other) == ["Nothing was proven."]
    assert "proof: proven." in illustrate.compare({"proof": other})


@pytest.mark.thorough
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="the pictures show bwrap")
def test_the_pictures_of_the_terminal_are_current(tmp_path: Path) -> None:
    assert illustrate.compare(illustrate.make_session(tmp_path)) == [], "run `make pictures`"


@pytest.mark.thorough
@pytest.mark.skipif(page_pictures.find_chromium() is None, reason="chromium is not installed")
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="the pictures show bwrap")
def test_the_picture_of_the_page_is_current(tmp_path: Path) -> None:
    with page_pictures.open_run(tmp_path) as page:
        said = page_pictures.read(page)
    assert said == (page_pictures.PICTURES / "run.txt").read_text("utf-8"), "run `make pictures`"
