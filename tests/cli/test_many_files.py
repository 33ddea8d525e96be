"""An agent that makes thousands of files: Segue starts no process for each of them afterwards."""

from __future__ import annotations

import asyncio

from segue.proof.trees import list_tree, read_ahead, read_text
from segue.system.git.objects import Objects
from tests.cli.place import Place


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
