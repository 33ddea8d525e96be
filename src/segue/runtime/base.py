"""Where cloud agents start: on the pushed branch of the user. What is not there yet is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from segue.domain.errors import UsageError, WorkspaceError
from segue.domain.events import NoticeGiven
from segue.ports import Source
from segue.runtime.app import App
from segue.runtime.open import OpenRun
from segue.runtime.preconditions import Undecided
from segue.system.git.branches import REMOTE, RemoteBranches
from segue.system.git.repository import Repository
from segue.system.git.upstream import name_unseen, pushed_branch

if TYPE_CHECKING:
    from segue.store.journal import Journal


_KEPT = "Nothing was launched."


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
    remote = RemoteBranches(repo, REMOTE, scratch, base)
    if await remote.fetch(base) is None:
        raise WorkspaceError(
            f"Branch {base} does not exist on {REMOTE}, where the agent would start.",
            kept=_KEPT,
            hint=f"Push it: git push --set-upstream {REMOTE} {base}   or name another one with --base",
        )
    chain = source.head_branch()
    if chain is None and before and await remote.fetch(before) is not None:
        chain = before
    begun = await remote.begin("", chain)
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


def make_remote(opened: OpenRun, journal: Journal, run: str = "") -> RemoteBranches:
    """Return the branches of the remote on which cloud agents work; `run` is the one that lanes share."""
    told = set()

    async def tell(said: str) -> None:
        if said not in told:
            told.add(said)
            await journal.emit(NoticeGiven(said))

    scratch, spec = opened.app.state_dir.absolute() / "worktrees", opened.spec
    return RemoteBranches(opened.repo, REMOTE, scratch, spec.base, run, address=spec.remote, tell=tell)
