"""Finds in a repository's later history which recorded work was reverted or fixed.

What history is silent about is not known to be right, so it labels nothing as good. Two things count: a
commit that says that it reverts the work; and one that says that it fixes something, and removes or replaces
lines that the work has written (by `git blame`). Commits of the same run are its own work, not later news.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from segue.domain.text import cut_text
from segue.parts.lab.labels.events import Label, LabelOrigin
from segue.parts.lab.labels.give import Labelled
from segue.system.git.repository import Repository

_REVERTS = re.compile(r"\bThis reverts commit ([0-9a-f]{7,40})")
_FIXES = re.compile(
    r"\b(fix(es|ed)?|bug ?fix(es)?|hotfix|regression|repairs?|repaired|corrects?|corrected|broken?|wrong)\b"
    r"(?!-)|^bug\b",
    re.I,
)
_NOT_FIXES = re.compile(
    r"\b(fix(es|ed)?|corrects?|corrected|repairs?)\b[^.]{0,30}"
    r"\b(typos?|spelling|lint|linter|format(ting)?|comments?|docs?|docstrings?|documentation|style|whitespace|"
    r"import order|unused imports?|grammar|warnings?|changelog|readme)\b",
    re.I,
)
_HARM = re.compile(r"\b(broken?|crash(es|ed)?|wrong)\b", re.I)
_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? ", re.M)
_FILE = re.compile(rb"^--- (?:a/(.+?)\t?|/dev/null)$", re.M)
_MOST_FILES = 30
"""A commit that changes more is a sweep over the project, not the fix of a defect."""
_SHORT, _SUBJECT = 10, 60


class RecordedWork(Struct, frozen=True):
    """The commit of a task."""

    run: str
    task: str
    commit: str


class LaterCommit(Struct, frozen=True):
    """A commit that came after recorded work."""

    id: str
    message: str
    run: str
    """The run that made it; empty: somebody else did."""

    @property
    def subject(self) -> str:
        """Its first line."""
        return cut_text(self.message.partition("\n")[0], _SUBJECT)


def says_fix(message: str) -> bool:
    """Return whether the subject of a commit says that it fixes the behaviour of something."""
    subject = message.partition("\n")[0]
    return bool(_FIXES.search(subject)) and not (_NOT_FIXES.search(subject) and not _HARM.search(subject))


async def find_wrong(repo: Repository, works: Sequence[RecordedWork]) -> list[Labelled]:
    """Return a label for each of these tasks whose work was reverted or fixed later."""
    commits = await _list_commits(repo)
    known = {work.commit: work for work in works if work.commit} | _find_copies(commits, works)
    found: dict[tuple[str, str], Labelled] = {}
    for commit in reversed(commits):  # the oldest first: the first thing that went wrong is the reason
        hits = _find_reverted(commit, known)
        if not hits and says_fix(commit.message):
            hits = await _find_fixed(repo, commit, known)
        for work, reason in hits:
            if work.run != commit.run:
                label = Label(work.task, False, LabelOrigin.GIT, commit.id[:_SHORT], reason)
                found.setdefault((work.run, work.task), Labelled(work.run, label))
    return list(found.values())


async def _list_commits(repo: Repository) -> list[LaterCommit]:
    """Return the commits of all branches, the newest first."""
    form = "--format=%H%x00%B%x01"
    text = await repo.git("log", "--branches", "--remotes", "--topo-order", form)
    parts = (entry.strip("\n").partition("\0") for entry in text.split("\1"))
    return [LaterCommit(id_, message, _trailer(message, "Run")) for id_, _, message in parts if id_]


def _trailer(message: str, name: str) -> str:
    found = re.search(rf"^Segue-{name}: (.+)$", message, re.M)
    return found[1].strip() if found else ""


def _find_copies(commits: Sequence[LaterCommit], works: Sequence[RecordedWork]) -> dict[str, RecordedWork]:
    """Return the same work under other ids: rebased, picked or merged as one, it keeps its trailers."""
    by_name = {(work.run, work.task): work for work in works}
    return {
        commit.id: by_name[name]
        for commit in commits
        if (name := (commit.run, _trailer(commit.message, "Task"))) in by_name
    }


def _find_reverted(commit: LaterCommit, known: Mapping[str, RecordedWork]) -> list[tuple[RecordedWork, str]]:
    reverted = _REVERTS.findall(commit.message)
    return [
        (work, f"reverted by {commit.id[:_SHORT]}: {commit.subject}")
        for id_, work in known.items()
        if any(id_.startswith(short) for short in reverted)
    ]


async def _find_fixed(
    repo: Repository, commit: LaterCommit, known: Mapping[str, RecordedWork]
) -> list[tuple[RecordedWork, str]]:
    """Return the works whose lines a commit removes or replaces."""
    shown = await repo.try_git(
        "diff", "--no-color", "--no-ext-diff", "-U0", "--no-renames", f"{commit.id}^", commit.id
    )
    if shown.exit_code != 0:  # the first commit of all fixes nothing
        return []
    files = list(_list_removed(shown.out))
    if len(files) > _MOST_FILES:
        return []
    lines: Counter[str] = Counter()
    for path, ranges in files:
        spans = [part for begin, end in ranges for part in ("-L", f"{begin},{end}")]
        blamed = await repo.try_git("blame", "--porcelain", *spans, f"{commit.id}^", "--", path)
        lines.update(re.findall(r"^([0-9a-f]{40}) \d+ \d+", blamed.out.decode("utf-8", "replace"), re.M))
    return [
        (known[id_], f"fixed by {commit.id[:_SHORT]} ({count} of its lines): {commit.subject}")
        for id_, count in lines.items()
        if id_ in known
    ]


def _list_removed(diff: bytes) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """Yield the files of a diff with the lines that it removes, as they were counted before."""
    for part in re.split(rb"^(?=diff --git )", diff, flags=re.M):
        named = _FILE.search(part)
        hunks = ((int(begin), int(size or 1)) for begin, size in _HUNK.findall(part))
        ranges = [(begin, begin + size - 1) for begin, size in hunks if size]
        if named and named[1] and ranges:
            yield named[1].decode("utf-8", "surrogateescape"), ranges
