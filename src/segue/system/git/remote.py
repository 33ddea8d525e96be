"""What a remote repository has, asked without a clone of it."""

from __future__ import annotations

from pathlib import Path

from segue.domain.errors import WorkspaceError
from segue.system.git.addresses import canonical_url
from segue.system.git.folders import COMMIT
from segue.system.git.outside import NO_REPOSITORY, run_git

_TIMEOUT = 120.0


async def remote_commit(url: str, branch: str) -> tuple[str, str]:
    """Return a branch of a remote and its commit; without a name, the branch that is checked out there."""
    if COMMIT.fullmatch(branch):
        return "", branch
    wanted = ["--symref", "--", url, f"refs/heads/{branch}" if branch else "HEAD"]
    done = await run_git(Path.home(), "ls-remote", *wanted, extra=NO_REPOSITORY, timeout=_TIMEOUT)
    shown = canonical_url(url)
    if done.exit_code != 0:
        said = done.err.decode("utf-8", "replace").strip().splitlines()
        raise WorkspaceError(
            f"{shown} cannot be read: {said[-1] if said else 'git gave no reason'}",
            kept="Nothing was submitted.",
            hint=f"Try: git ls-remote {shown}",
        )
    name, commit = branch, ""
    for line in done.out.decode("utf-8", "replace").splitlines():
        first, _, ref = line.partition("\t")
        if first.startswith("ref: refs/heads/"):
            name = first.removeprefix("ref: refs/heads/")
        elif COMMIT.fullmatch(first) and ref in ("HEAD", f"refs/heads/{branch}"):
            commit = first
    if not commit:
        raise WorkspaceError(f"{shown} has no branch {branch or 'HEAD'}.", kept="Nothing was submitted.")
    return name, commit
