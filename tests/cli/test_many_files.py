"""An agent that makes thousands of files: Segue starts no process for each of them afterwards."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from segue.proof.trees import list_tree, read_ahead, read_text
from segue.system.git.objects import Objects
from tests.cli.place import Place

COUNTING = '#!/bin/sh\necho >> {calls}\nexec {git} "$@"\n'
AGENT = """
mkdir many
for n in $(seq {number}); do echo "def of_$n(): return $n" > many/$n.py; echo $n > many/$n.txt; done
"""


def count_gits(place: Place, number: int) -> int:
    """Return how many gits a task takes whose agent makes that many files of each kind."""
    folder = place.root / "bin"
    folder.mkdir()
    texts = {"git": COUNTING.format(calls=folder / "calls", git=shutil.which("git"))}
    texts["agent"] = f"#!/bin/sh\n{AGENT.format(number=number)}"
    for name, text in texts.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    place.env["PATH"] = f"{folder}:{place.env['PATH']}"
    place.config(f'checks = [["true"]]\nagent = "command"\n[agents.command]\nargv = ["{folder}/agent"]\n')
    place.segue("run", "plan.md", "--task", "1")
    return (folder / "calls").read_text().count("\n")


@pytest.mark.thorough
def test_gits_do_not_grow_with_the_files_of_a_task(tmp_path: Path) -> None:
    few, many = (count_gits(Place.make(tmp_path / str(number)), number) for number in (20, 1000))
    assert many < few + 400, "no more than the interfaces of 200 files are read"


def test_what_was_read_ahead_is_what_git_has(place: Place) -> None:
    before = place.git("rev-parse", "HEAD").strip()
    contents = [b"", b"\n", b"no end", b"\xff\x00\n", *(f"{number}\n".encode() for number in range(20))]
    for number, content in enumerate(contents):
        (place.repo / f"{number}.txt").write_bytes(content)
    (place.repo / "link").symlink_to("0.txt")
    place.git("add", "--all")
    place.git("commit", "--quiet", "-m", "many")
    after = place.git("rev-parse", "HEAD").strip()

    async def read() -> list[str]:
        objects = Objects(place.repo / ".git")
        trees = [await list_tree(objects, tree) for tree in (before, after)]
        await read_ahead(objects, *trees)
        names = [*(f"{number}.txt" for number in range(len(contents))), "link", "plan.md"]
        return [await read_text(objects, trees[1], name) for name in names]

    plan = (place.repo / "plan.md").read_text()
    assert asyncio.run(read()) == [*(one.decode("utf-8", "replace") for one in contents), "", plan]
