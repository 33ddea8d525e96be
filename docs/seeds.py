"""Read from the names of tests which requirement of the users' documents each of them shows."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "seeds"
DOCUMENTS = ("000", "001", "002", "003", "004")
_TEST = re.compile(r"^def test_(\w+)\(", re.MULTILINE)
_NUMBER = re.compile(r"(fr|sc|us|r|rule|section|step)_?(\d+(?:_\d+)?)(?=_)")
_WORDS = {
    "fr": "FR-{}",
    "sc": "SC-{}",
    "us": "US{}",
    "r": "R{}",
    "rule": "rule {}",
    "section": "section {}",
    "step": "step {}",
}


def requirements() -> dict[str, Counter[str]]:
    """Return by the number of a document how many tests show each of its requirements."""
    return {number: _of_file(next(FOLDER.glob(f"test_{number}_*.py"))) for number in DOCUMENTS}


def _of_file(path: Path) -> Counter[str]:
    names = _TEST.findall(path.read_text("utf-8"))
    return Counter(one for name in names for one in _of_name(f"{name}_"))


def _of_name(name: str) -> list[str]:
    """Return what the name begins with: `fr4_and_fr5_…` shows both."""
    found, rest = [], name
    while shown := _NUMBER.match(rest):
        found.append(_WORDS[shown[1]].format(shown[2].replace("_", ".")))
        rest = rest[shown.end() :].removeprefix("_").removeprefix("and_")
    return found or ["output handling" if name.startswith("output_handling") else name]
