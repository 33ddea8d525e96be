"""What a step has changed: the diff between the commits before and after it, from the repository."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from segue.domain.diff import by_file
from segue.domain.errors import SegueError
from segue.domain.run import Run
from segue.flow.context import LAUNCHING
from segue.ports import Store
from segue.system.git.repository import Repository

_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_EDITING = ("execute", "address", "resolve")
_LINES = {"+": "add", "-": "del", "@": "hunk"}


def commits_of(store: Store, step: Mapping[str, Any]) -> tuple[str, str] | None:
    """The commits between which the step's work lies; None when it was not committed."""
    if step["task"] is None:
        return None
    rows = store.query(
        "SELECT seq, phase, output FROM orchestrator_steps WHERE run_id = ? AND task = ?"
        " AND phase IN ('base', 'commit', 'execute', 'address', 'resolve') ORDER BY seq",
        [step["run_id"], step["task"]],
    )
    before = [row for row in rows if row["seq"] < step["seq"]]
    base = next((_head(row) for row in before if row["phase"] == "base"), "")
    if step["phase"] not in LAUNCHING and step["phase"] != "commit":
        return None
    if step["phase"] not in _EDITING:
        return _pair(base, _last(before))
    return _pair(_last(before), _after(rows, step) or _head(step))


def _after(rows: list[dict[str, Any]], step: Mapping[str, Any]) -> str:
    """The commit that was made of the step's work, before anything else was launched."""
    for row in rows:
        if row["seq"] > step["seq"]:
            return _head(row) if row["phase"] == "commit" else ""
    return ""


def _last(rows: list[dict[str, Any]]) -> str:
    return next((found for row in reversed(rows) if (found := _head(row))), "")


def _head(row: Mapping[str, Any]) -> str:
    output = row["output"]
    return str(output.get("commit") or output.get("head") or "")


def _pair(base: str, head: str) -> tuple[str, str] | None:
    found = base != head and _COMMIT.fullmatch(base) and _COMMIT.fullmatch(head)
    return (base, head) if found else None


def diff_text(run: Run, base: str, head: str) -> tuple[str, str]:
    """The diff, and why there is none."""
    if not Path(run.spec.repo).is_dir():
        return "", f"The repository {run.spec.repo} is not there any more."

    async def ask() -> str:
        repo = await Repository.open(Path(run.spec.repo))
        return await repo.diff(base, head)

    try:
        return asyncio.run(ask()), ""
    except (SegueError, OSError) as error:
        return "", f"git could not compare {base[:10]} with {head[:10]}: {error}"


def highlighted(diff: str) -> list[dict[str, Any]]:
    """The diff file by file, each line with its kind."""
    return [{"path": file.path, "lines": _lines(file.text)} for file in by_file(diff)]


def _lines(text: str) -> list[dict[str, str]]:
    lines = text.removesuffix("\n").split("\n")
    first = next((number for number, line in enumerate(lines) if line.startswith("@@")), len(lines))
    return [
        {"kind": "meta" if number < first else _LINES.get(line[:1], ""), "text": line}
        for number, line in enumerate(lines)
    ]
