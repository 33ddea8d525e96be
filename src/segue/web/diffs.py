"""Reads the diff of a step: between the commits before and after it, from the repository."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import ValidationError

from segue.domain.errors import SegueError
from segue.domain.events import PatchMade, read_event
from segue.domain.kind_words import TEST_FILE
from segue.domain.results import Output, read_as
from segue.domain.run import Run
from segue.domain.workspace import split_diff
from segue.flow.phase import PHASES
from segue.system.git.folders import git_dirs
from segue.system.git.objects import Objects
from segue.system.git.worktree import branch_of

if TYPE_CHECKING:
    from segue.store.store import Store


_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_EDITING = tuple(phase.name for phase in PHASES.values() if phase.edits)
_KEPT = ("base", "commit", *_EDITING)
"""The steps that store a commit."""

LINE_KINDS = {"+": "add", "-": "del", "@": "hunk"}
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)")
_CHANGES = {"new file": "new", "deleted file": "deleted", "rename from": "renamed"}


class _Head(Output, frozen=True):
    """What such a step stores: its commit, or the head of the branch it left."""

    commit: str | None = None
    head: str = ""


def find_commits(store: Store, step: Mapping[str, Any]) -> tuple[str, str] | None:
    """Find the commits before and after the work of a step; None if it was not committed."""
    if step["task"] is None:
        return None
    rows = _list_kept(store, step["run_id"], step["task"])
    before = [row for row in rows if row["seq"] < step["seq"]]
    base = next((_get_head(row) for row in before if row["phase"] == "base"), "")
    launching = step["phase"] in PHASES and PHASES[step["phase"]].role is not None
    if not launching and step["phase"] != "commit":
        return None
    if step["phase"] not in _EDITING:
        return _check_pair(base, _find_last(before))
    return _check_pair(_find_last(before), _find_next(rows, step) or _get_head(step))


def find_task_commits(store: Store, run_id: str, task: str) -> tuple[str, str] | None:
    """Find the commits before and after all work on a task; None if nothing of it was committed."""
    rows = _list_kept(store, run_id, task)
    base = next((_get_head(row) for row in rows if row["phase"] == "base"), "")
    return _check_pair(base, _find_last(rows))


def read_patch(store: Store, run_id: str, task: str, step: str = "") -> PatchMade | None:
    """Return what the last attempt at a task left, or what one step left, as it was recorded then."""
    where, values = ("AND step = ?", [step]) if step else ("AND data->>'task' = ?", [task])
    rows = store.query(
        "SELECT data FROM orchestrator_events WHERE run_id = ? AND type = 'patch'"  # noqa: S608
        f" {where} ORDER BY seq DESC LIMIT 1",
        [run_id, *values],
    )
    found = read_event(PatchMade.type, rows[0]["data"]) if rows else None
    return found if isinstance(found, PatchMade) else None


def _list_kept(store: Store, run_id: str, task: str) -> list[dict[str, Any]]:
    return store.query(
        "SELECT seq, phase, output FROM orchestrator_steps WHERE run_id = ? AND task = ?"  # noqa: S608
        f" AND phase IN ({', '.join('?' * len(_KEPT))}) ORDER BY seq",
        [run_id, task, *_KEPT],
    )


def _find_next(rows: list[dict[str, Any]], step: Mapping[str, Any]) -> str:
    """Return the commit of the work of a step, made before anything else was launched."""
    for row in rows:
        if row["seq"] > step["seq"]:
            return _get_head(row) if row["phase"] == "commit" else ""
    return ""


def _find_last(rows: list[dict[str, Any]]) -> str:
    return next((found for row in reversed(rows) if (found := _get_head(row))), "")


def _get_head(row: Mapping[str, Any]) -> str:
    try:
        found = read_as(_Head, row["output"])
    except ValidationError:
        return ""
    return found.commit or found.head


def _check_pair(base: str, head: str) -> tuple[str, str] | None:
    found = base != head and _COMMIT.fullmatch(base) and _COMMIT.fullmatch(head)
    return (base, head) if found else None


def read_diff(run: Run, base: str, head: str) -> tuple[str, str]:
    """Return the diff, or the reason why there is none."""
    if run.spec.origin is not None:
        return "", f"The work of this run is on a branch of {run.spec.repo}: {branch_of(run.id)}"
    if not Path(run.spec.repo).is_dir():
        return "", f"The repository {run.spec.repo} no longer exists."
    folders = git_dirs(Path(run.spec.repo))
    if folders is None:
        return "", f"{run.spec.repo} is not a git repository any more."
    try:
        return asyncio.run(Objects(folders[1]).diff(base, head)), ""
    except (SegueError, OSError) as error:
        return "", f"git could not compare {base[:10]} with {head[:10]}: {error}"


def split_by_file(diff: str) -> list[dict[str, Any]]:
    """Split a diff by file, tests first, each line with its kind and its numbers before and after."""
    files = [_describe_file(file.path, file.text) for file in split_diff(diff)]
    return sorted(files, key=lambda file: not file["test"])


def _describe_file(path: str, text: str) -> dict[str, Any]:
    lines = text.removesuffix("\n").split("\n")
    first = next((number for number, line in enumerate(lines) if line.startswith("@@")), len(lines))
    head = "\n".join(lines[:first])
    numbered = list(number_lines(lines[first:]))
    return {
        "path": path,
        "lines": [*({"kind": "meta", "text": line} for line in lines[:first]), *numbered],
        "test": TEST_FILE.search(f" {path}") is not None,
        "change": next((change for word, change in _CHANGES.items() if f"\n{word}" in head), "changed"),
        "added": sum(line["kind"] == "add" for line in numbered),
        "removed": sum(line["kind"] == "del" for line in numbered),
    }


def number_lines(lines: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield the lines of hunks with their kinds and numbers; those before the first hunk have no numbers."""
    old = new = 0
    for line in lines:
        kind = LINE_KINDS.get(line[:1], "")
        if kind == "hunk" and (found := _HUNK.match(line)):
            old, new = int(found[1]), int(found[2])
        numbered = old + new > 0 and kind != "hunk" and not line.startswith("\\")
        is_old, is_new = numbered and kind != "add", numbered and kind != "del"
        yield {"kind": kind, "text": line, "old": old if is_old else None, "new": new if is_new else None}
        old, new = old + is_old, new + is_new
