"""Who moved a work tree's HEAD while an agent was at work, as far as that can be told, and the way back.

An agent whose sandbox keeps git's folder as it is cannot have done it. Otherwise git's log of HEAD says when
it was, which may be after the agent had ended; it never says by whom.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from segue.domain.errors import Unfinished
from segue.system.files import read_end
from segue.system.git.folders import GitPlace, read_ref

if TYPE_CHECKING:
    from segue.system.git.guard import GitState

UNDER_WAY = {
    "MERGE_HEAD": "A merge",
    "CHERRY_PICK_HEAD": "A cherry-pick",
    "REVERT_HEAD": "A revert",
    "rebase-merge": "A rebase",
    "rebase-apply": "A rebase",
}
"""What git has not finished, by the file that says so."""
_TAIL = 8192
_SLACK = 2.0
"""Seconds by which the log, which counts whole ones, and the end of a launch may differ."""


def refuse_moved(
    place: GitPlace, before: GitState, now: GitState, rewritten: bool, sealed: bool, ended: float | None
) -> None:
    """Raise Unfinished where what an agent did cannot be seen: on another branch, or on another history.

    A history that agents could have `rewritten` is put back, and no reason to stop.
    """
    begun = [name for name in now.under_way if name not in before.under_way]
    if not before.own:
        return  # an older Segue has looked
    if now.branch != before.branch:
        names = [one.branch or one.head[:10] for one in (before, now)]
        what = f"The branch was switched from {names[0]} to {names[1]}"
        back = way_back(place, before.branch, before.head)
    elif sealed and begun:
        what, back = f"{UNDER_WAY[begun[0]]} was begun", "Finish or abort it"
    elif sealed and rewritten:
        what = f"The history of {before.branch or 'HEAD'} was rewritten, without {before.head[:10]},"
        back = f"git branch kept-{now.head[:10]} && git reset --keep {before.head[:10]}"
    else:
        return
    said = f"{what} {_tell_who(place, sealed, ended)}"
    raise Unfinished(
        f"{said}.",
        reason=said,
        kept="What the agent did is kept; on resume only the look at it is repeated.",
        hint=f"{back}, then: segue resume",
    )


def _tell_who(place: GitPlace, sealed: bool, ended: float | None) -> str:
    """Say whose work a moved HEAD is; `sealed` agents cannot write there, `ended` is when the agent did."""
    if sealed:
        return "while the agent worked, but not by the agent, whose sandbox cannot write to git's folder"
    moved = _last_move(place)
    if moved is not None and ended is not None and moved > ended + _SLACK:
        when = time.strftime("%H:%M:%S", time.localtime(moved))
        return f"at {when}, after the agent had ended"
    return "while the agent worked, and git does not tell by whom"


def way_back(place: GitPlace, branch: str, head: str) -> str:
    """Return the command that checks out a branch again, also if it was deleted; for none, the commit.

    It takes along what is not committed, which `git rebase --abort` would delete.
    """
    under_way = [name for name in ("rebase-merge", "rebase-apply") if (place.git_dir / name).exists()]
    first = "git rebase --quit && " if under_way else ""
    if not branch:
        return f"{first}git switch --detach {head[:10]}"
    if head and not read_ref(place.common, f"refs/heads/{branch}"):
        return f"{first}git switch -c {branch} {head[:10]}"
    return f"{first}git switch {branch}"


def _last_move(place: GitPlace) -> float | None:
    """Return when HEAD was last moved, in seconds since the epoch; None if there is no log."""
    lines = os.fsdecode(read_end(place.git_dir / "logs" / "HEAD", _TAIL)).splitlines()
    said = lines[-1].partition("\t")[0].split() if lines else []
    return float(said[-2]) if len(said) > 2 and said[-2].isdigit() else None
