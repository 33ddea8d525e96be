"""What follows from the way a launch failed: who else may do better, and what a person can do."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from segue.domain.exits import find_exit, find_unshown
from segue.domain.outcome import Failure, FailureKind, Outcome
from segue.domain.question import ASKS, is_question
from segue.domain.task import Task
from segue.domain.workspace import split_diff
from segue.system.beneath import read_below

UNABLE = {FailureKind.USAGE_LIMIT, FailureKind.RATE_LIMIT, FailureKind.AUTH, FailureKind.OUTAGE}
UNABLE |= {FailureKind.NOT_STARTED, FailureKind.HANG}
"""Failures for which an agent or its service is to blame, not the work: it rests, and others take over."""

_SAME_AGAIN = {FailureKind.REFUSED, FailureKind.CONTEXT, FailureKind.TRUNCATED, FailureKind.OUTPUT_LIMIT}
_OWN_ATTEMPTS = {FailureKind.NO_CHANGE, FailureKind.NO_RESULT, FailureKind.UNKNOWN, FailureKind.STUCK}

_ADVICE = {
    FailureKind.REFUSED: "Reword the task",
    FailureKind.CONTEXT: "Split the task",
    FailureKind.TRUNCATED: "Split the task",
    FailureKind.OUTPUT_LIMIT: "Split the task",
    FailureKind.NOT_STARTED: "Check the agent and its model (segue doctor)",
    FailureKind.HANG: "Try again later",
}


def may_go_elsewhere(failure: Failure, is_last_attempt: bool) -> bool:
    """Return whether another agent is asked: at once where this one would end in the same way again."""
    return failure.kind in _SAME_AGAIN or (failure.kind in _OWN_ATTEMPTS and is_last_attempt)


def advise(failure: Failure) -> str:
    """Return what happened, and what a person can do where no agent is left."""
    advice = _ADVICE.get(failure.kind)
    if advice is None:
        return failure.message
    said = failure.message.rstrip()
    stop = "" if said.endswith((".", "!", "?")) else "."
    return f"{said}{stop} {advice}, or name another agent to fall back on: --agent FIRST,SECOND"


def cited_files(outcome: Outcome, root: Path) -> set[str]:
    """Return the files by which an agent shows that its task cannot be done, from the root."""
    way = find_exit(outcome.text)
    return {os.path.relpath(root / one.file, root) for one in way.evidence if one.file} if way else set()


def way_out(outcome: Outcome, task: Task, root: Path, own: str = "") -> Failure | None:
    """Return how an agent ended that says that its task cannot be done, or asks; None if it does not.

    `own` is the diff of what it wrote itself, which shows nothing.
    """
    way = find_exit(outcome.text)
    if way is None:
        return None
    if not way.cannot.strip():
        return Failure(FailureKind.QUESTION, f"{ASKS}{way.question.strip()}")
    words = "\n".join((task.title, task.text, *(one.text for one in task.criteria)))
    if missing := find_unshown(way, words, partial(_read, root, own)):
        text = f"You say that the task cannot be done ({way.cannot.strip()}), but {'; '.join(missing[:5])}."
        text += " What you wrote yourself shows nothing." if own else ""
        return Failure(FailureKind.UNSHOWN, f"{text} Show it by file, line and quote, or do the task.")
    return Failure(FailureKind.CANNOT, way.describe())


def _read(root: Path, own: str, path: str) -> str | None:
    text, place = read_below(root, root / path).decode("utf-8", "replace"), os.path.relpath(root / path, root)
    changed = [line for part in split_diff(own) if part.path == place for line in part.text.split("\n")]
    added = {line[1:] for line in changed if line.startswith("+")}
    before = [line for line in text.split("\n") if line not in added]
    return "\n".join([*before, *(line[1:] for line in changed if line.startswith("-"))]) or None


def advise_person(run: str, key: str, reason: str) -> str:
    """Say what a person can do about a task that needs one; a question is answered."""
    if is_question(reason):
        return f'segue task say {key} "…"   (then segue resume {run})'
    return f"segue logs {run} --task {key}   (then segue resume, or segue task accept {key})"
