"""Filters findings by what has changed since a commit."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from segue.domain.errors import WorkspaceError
from segue.domain.verdict import Finding
from segue.system.git.folders import find_place
from segue.system.git.outside import PLAIN_DIFF, run_outside

_HUNK = re.compile(rb"^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


async def in_changed_files(repo: Path, base: str, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings in files changed or added since the base, committed or not, or in no file."""
    names = await _git(repo, "diff", "--name-only", "-z", *PLAIN_DIFF, base, "--")
    names += await _git(repo, "ls-files", "--others", "--exclude-standard", "-z")
    changed = {name.decode("utf-8", "replace") for name in names.split(b"\0") if name}
    return tuple(finding for finding in findings if not finding.file or finding.file in changed)


async def in_changed_hunks(repo: Path, base: str, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings on or near lines that the commits since the base have changed."""
    hunks: dict[str, list[range]] = {}
    kept: list[Finding] = []
    for finding in findings:
        if finding.file not in hunks:
            hunks[finding.file] = await _hunks(repo, base, finding.file)
        line = finding.line
        if not finding.file or line is None or any(line in hunk for hunk in hunks[finding.file]):
            kept.append(finding)
    return tuple(kept)


async def _hunks(repo: Path, base: str, file: str) -> list[range]:
    if not file or file.startswith(("/", "../")):
        return []
    options = ("--unified=3", "--no-color", "--no-renames", *PLAIN_DIFF)
    diff = await _git(repo, "--literal-pathspecs", "diff", *options, base, "HEAD", "--", file)
    found = ((int(match[1]), int(match[2] or 1)) for match in _HUNK.finditer(diff))
    return [range(start, start + count) for start, count in found]


async def _git(repo: Path, *arguments: str) -> bytes:
    place = find_place(repo)
    if place is None:
        raise WorkspaceError(f"git cannot tell what has changed: {repo} is not in a git repository")
    done = await run_outside(place, *arguments)
    if done.exit_code != 0:
        said = done.err.decode("utf-8", "replace").strip()
        raise WorkspaceError(f"git cannot tell what has changed: {said or done.exit_code}")
    return done.out
