"""Read from the names of tests which requirement of the users' documents each of them shows."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "seeds"
DOCUMENTS = {
    "000": "Spec Kit on Cursor Cloud",
    "001": "bridge and relay",
    "002": "one prompt to a project and a dataset",
    "003": "a CLI agent as a LiteLLM model",
    "004": "a plan with the Cursor CLI and stet",
}
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


def seed_rows() -> list[tuple[str, str]]:
    """Return the rows of the table: each document with its requirements, and how many tests show each."""
    return [
        (f"[{number}: {title}](tests/seeds/{next(FOLDER.glob(f'test_{number}_*.py')).name})", _listed(found))
        for (number, title), found in zip(DOCUMENTS.items(), requirements().values(), strict=True)
    ]


def _listed(found: Counter[str]) -> str:
    def order(name: str) -> tuple[str, list[int]]:
        return re.sub(r"[\d.]+", "", name), [int(one) for one in re.findall(r"\d+", name)]

    return ", ".join(
        name if found[name] == 1 else f"{name} ({found[name]})" for name in sorted(found, key=order)
    )
