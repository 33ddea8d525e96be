"""Lists of tasks that the documentation shows are read as it says, and its JSON is JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from docs import generate

from tests.cli.place import Place

DOCS = generate.ROOT / "docs"
LISTS = {
    "README.md": ("markdown", "plan.md", ["1", "2"]),
    "docs/guides/tasks.md": ("markdown", "plan.md", ["1", "2"]),
    "docs/guides/speckit.md": ("markdown", "specs/001-login/tasks.md", ["T012", "T013"]),
    "docs/guides/issues.md": ("csv", "tasks.csv", ["tax", "print", "old"]),
}
"""A page: the kind of block with its list, the file to put it into, and the keys of its tasks."""


def first_block(page: str, kind: str) -> str:
    """The first block of this kind on a page."""
    text = (generate.ROOT / page).read_text("utf-8")
    return re.split(rf"^```{kind}\n", text, flags=re.MULTILINE)[1].partition("```")[0]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place.make(tmp_path_factory.mktemp("examples"))


@pytest.mark.parametrize("page", LISTS)
def test_lists_of_tasks_are_read_as_shown(page: str, place: Place) -> None:
    kind, name, keys = LISTS[page]
    path = place.repo / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(first_block(page, kind))
    tasks = place.json("task", "list", name)["tasks"]
    assert [task["key"] for task in tasks] == keys
    done = [task["key"] for task in tasks if task["status"] == "done"]
    assert done == [key for key in keys if key in ("T013", "old")]


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda path: path.stem)
def test_json_is_valid(page: Path) -> None:
    for block in re.findall(r"^```json\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE):
        try:
            json.loads(block)
        except ValueError:
            assert all(json.loads(line) for line in block.splitlines())
