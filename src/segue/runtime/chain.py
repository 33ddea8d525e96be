"""Where cloud agents start: on the pushed branch of the user, or where the work of earlier tasks is.

What nobody has written down is looked for on the remote; where that does not tell, nothing is launched.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from segue.domain.amounts import list_some
from segue.domain.errors import UsageError, WorkspaceError
from segue.domain.task import TaskStatus
from segue.ports import Source
from segue.runtime.app import App
from segue.runtime.preconditions import Undecided
from segue.system.git.branches import REMOTE, RemoteBranches
from segue.system.git.remotes import name_unseen, pushed_branch
from segue.system.git.repository import Repository

_KEPT = "Nothing was launched."
_CANNOT_PROCEED = "Cannot proceed: state file is missing or corrupted."


async def choose_base(app: App, repo: Repository, source: Source, before: str | None) -> tuple[str, str]:
    """Return the branch of the remote to start from, and a warning about what is not seen there.

    It is the one that was named, or that of the user; as long as it lacks earlier work, the branch of that.
    `before` is the branch that the last run of this source ended with, if cloud agents did it. Raises
    Undecided if something is not seen and no branch was named.
    """
    scratch = app.state_dir / "worktrees"
    named = (app.loaded.settings.base or "").removeprefix(f"{REMOTE}/")
    base = named or await pushed_branch(repo, REMOTE)
    base = base or await RemoteBranches(repo, REMOTE, scratch).default_branch()
    remote = RemoteBranches(repo, REMOTE, scratch, base, work=source.head_commit)
    head = await remote.fetch(base)
    if head is None:
        raise WorkspaceError(
            f"Branch {base} does not exist on {REMOTE}, where the agent would start.",
            kept=_KEPT,
            hint=f"Push it: git push --set-upstream {REMOTE} {base}   or name another one with --base",
        )
    chain = source.head_branch()
    if chain is None and before and await remote.fetch(before) is not None:
        chain = before
    if chain is None and not named:
        chain = await _find_chain(remote, source, head)
    begun = await remote.begin("", chain, named=bool(named))
    start = begun.branch
    if named and start != named:
        raise UsageError(
            f"The work so far is on branch {start}, which {base} does not contain.",
            kept=_KEPT,
            hint=f"Merge {start} into {base} and push it, or leave --base out to continue from {start}",
        )
    unseen = await name_unseen(repo, begun.head, source.documents)
    if not unseen:
        return start, ""
    message = f"The agent starts from branch {start} of {REMOTE} and does not see: {'; '.join(unseen)}."
    if named:
        return start, message
    push = "Push your work" if start == base else f"Merge {start} and your work into one branch, and push it"
    hint = f"{push}; or start there anyway: --base {start}"
    raise Undecided(message, hint, "Start anyway?", {"base": start})


async def _find_chain(remote: RemoteBranches, source: Source, head: str) -> str | None:
    """Return the branch with the work of the tasks that are ticked here and not at the start; None: no need.

    Somebody who pushed the ticks with the start says that the work is there. Others are told by their
    commits: their messages name the task.
    """
    recorded = source.recorded()
    if recorded is None:
        return None
    ticked = (task.key for task in source.look().tasks if task.status is TaskStatus.DONE)
    done = [key for key in ticked if key not in recorded]
    path = _place(remote, source.contract_files)
    if not done or not path:
        return None
    lines = (await remote.read(head, path) or b"").decode("utf-8", "replace").splitlines()
    keys = {key for key in done if not any(_is_ticked(line, key) for line in lines)}
    if not keys:
        return None
    named = await remote.find_tasks(head)
    found = [name for name, tasks in named.items() if keys <= tasks]
    if len(found) != 1:
        several = f" Several branches contain it: {list_some(found, 5)}." if found else ""
        words = f"{list_some(sorted(keys), 10)} {'is' if len(keys) == 1 else 'are'} ticked"
        raise UsageError(
            f"{_CANNOT_PROCEED} {words}, but nothing says on which branch of {REMOTE} that work is.{several}",
            kept=_KEPT,
            hint="Name the branch that contains it: --base BRANCH. If it is not done: open the box again",
        )
    return found[0]


def _place(remote: RemoteBranches, files: Sequence[Path]) -> str:
    """Return the path of the file with the tasks in the repository; empty if it is not there."""
    root = Path(os.path.realpath(remote.root))
    listed = Path(os.path.realpath(files[0])) if files else None
    inside = listed is not None and listed.is_relative_to(root)
    return listed.relative_to(root).as_posix() if listed is not None and inside else ""


def _is_ticked(line: str, key: str) -> bool:
    return re.match(rf"\s*(?:[-*+]|\d+[.)])\s*\[[^ \]]\]\W*{re.escape(key)}\b", line) is not None
