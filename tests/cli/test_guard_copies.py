"""The guard keeps git's configuration as it is, so that it can be put back: nobody else gets to see that."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow.parquet as parquet
import pytest

from tests.cli.place import Place

MARK = "planted-in-the-configuration-of-git"
"""No secret by its shape: where it is found, a copy was taken along."""


@pytest.mark.thorough
@pytest.mark.skipif(os.name == "nt", reason="modes of files are different there")
def test_copies_of_gits_configuration_are_private_and_leave_with_nothing(place: Place) -> None:
    with (place.repo / ".git" / "config").open("a") as config:
        config.write(f"# {MARK}\n")
    place.script('[[on]]\nwrite = { "work.txt" = "{task}" }\n')
    place.segue("run", "plan.md", "--task", "1", "--allow-no-change")
    copies = [path for path in (place.root / "state").rglob("*") if path.is_file() and has_mark(path)]
    assert copies, "nothing was kept, so nothing is tested"
    guard = copies[0].parent.parent
    assert {path.parent.parent for path in copies} == {guard}
    assert guard.name == "guard"
    assert {path.stat().st_mode & 0o777 for path in guard.rglob("*") if path.is_file()} == {0o600}
    folders = [guard, *(path for path in guard.rglob("*") if path.is_dir())]
    assert {path.stat().st_mode & 0o777 for path in folders} == {0o700}
    names = {path.name for path in copies}
    for words in (
        *(["logs", "--json"], ["status", "last", "--json"], ["proof", "last", "--markdown"]),
        *(["report", "run", "last", "--json"], ["replay", "last", "--json"], ["doctor", "--json"]),
    ):
        said = place.segue(*words, code=None).stdout
        assert said
        assert MARK not in said
        assert not [name for name in names if name in said]
    out = place.root / "out"
    out.mkdir()
    place.segue("report", "run", "last", "--html", str(out / "report.html"), "--csv", str(out / "report.csv"))
    for kind in ("jsonl", "csv", "parquet"):
        place.segue("db", "export", "--format", kind, "-o", str(out / kind))
    place.segue("dataset", "publish", str(out / "published"))
    assert [path for path in out.rglob("*") if path.is_file() and has_mark(path)] == []
    assert [path for path in out.rglob("*") if path.name in names or "guard" in path.name] == []


def has_mark(path: Path) -> bool:
    if path.suffix == ".parquet":
        return MARK in json.dumps(parquet.read_table(path).to_pylist(), default=str)
    return MARK.encode() in path.read_bytes()
