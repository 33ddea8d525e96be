"""Looks at what a run left behind, beside what it says about itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from segue.parts.lab.bench.cases import Twin
from segue.parts.lab.bench.place import CasePlace
from segue.parts.lab.bench.report import Ending


async def find_faults(
    ending: Ending, place: CasePlace, base: str, run: Mapping[str, Any] | None
) -> tuple[str, ...]:
    """Return what is wrong with the history and the files at the end of a run."""
    twin, faults = ending.case.twin, []
    for path, words in twin.keep.items():
        if not await _is_kept(place, path, words):
            faults.append(f"the work in {path} is lost")
    for key, title in twin.titles.items():
        if any(task.key == key and not task.title.startswith(title) for task in ending.tasks):
            faults.append(f"task {key} was run with another text")
    if ending.exit_code == 0:
        faults += await _find_in_commit(twin, place, base, await _find_head(place, run))
    return tuple(faults)


async def _find_in_commit(twin: Twin, place: CasePlace, base: str, head: str) -> list[str]:
    """Return what is wrong with the last commit of a run that says it is done."""
    faults = []
    if (await place.run("git", "merge-base", "--is-ancestor", base, head)).exit_code:
        faults.append("the user's commit is not in the history any more")
    faults += [
        f"the last commit lacks {path}"
        for path, words in twin.hold.items()
        if words not in await place.git("show", f"{head}:{path}")
    ]
    faults += [
        f"{path} was changed"
        for path in twin.unchanged
        if await place.git("show", f"{head}:{path}") != await place.git("show", f"{base}:{path}")
    ]
    listed = (await place.git("ls-tree", "-r", "-z", "--name-only", head)).split("\0")
    faults += [f"{path} was committed" for path in listed if any(words in path for words in twin.lack)]
    return faults


async def _find_head(place: CasePlace, run: Mapping[str, Any] | None) -> str:
    """Return the revision at which the run left its work: a worktree has a branch of its own."""
    if run and run.get("worktree"):
        newest = await place.git(
            "for-each-ref", "--sort=-committerdate", "--format=%(refname)", "refs/heads/segue"
        )
        return newest.split("\n", 1)[0] or "HEAD"
    return "HEAD"


async def _is_kept(place: CasePlace, path: str, words: str) -> bool:
    """Return whether a file with these words is in any folder or any branch."""
    for branch in (await place.git("for-each-ref", "--format=%(refname)")).split():
        if words in await place.git("show", f"{branch}:{path}"):
            return True
    return await asyncio.to_thread(_is_on_disk, place.folder, path, words)


def _is_on_disk(folder: Path, path: str, words: str) -> bool:
    found = (file for file in folder.rglob(Path(path).name) if file.is_file())
    return any(words in file.read_text("utf-8", "replace") for file in found if file.match(path))
