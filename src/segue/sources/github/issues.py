"""Reads issues from GitHub and makes tasks of them: their text, their checklists, what they wait for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from segue.domain.amounts import list_some
from segue.domain.errors import SourceError
from segue.domain.graph import Dependency, WaitKind
from segue.domain.task import Notice, Task
from segue.domain.text import clean, plain
from segue.domain.verdict import Criterion
from segue.sources.github.address import IssueList
from segue.system.github import MEMBERS, GithubLabel
from segue.system.http.rest import Refused, Rest

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
_BOX = re.compile(r"^\s*(?:[-*+]|\d{1,9}[.)])\s+\[([ xX])\]\s+(\S.*?)\s*$")
_LONGEST = 65_536
_REF = r"(?:[\w.-]+/[\w.-]+)?#[1-9][0-9]{0,9}\b|https?://[^\s/]+/[\w.-]+/[\w.-]+/issues/[1-9][0-9]{0,9}\b"
_REFS = re.compile(_REF)
_WAITS = re.compile(
    rf"(?i:\b(?:blocked\s+by|depends\s+(?:up)?on)\b)[\s:*_]*((?:{_REF})(?:\s*(?:,|&|\band\b)?\s*(?:{_REF}))*)"
)
_PARTS = re.compile(r"(?:https?://[^\s/]+/)?(?:([\w.-]+/[\w.-]+))?(?:#|/issues/)(\d+)")


def read_body(body: object) -> str:
    """Return what people see of a text: hidden comments and characters are left out."""
    if not isinstance(body, str):
        return ""
    return clean(_COMMENT.sub("", body[:_LONGEST].replace("\r\n", "\n"))).strip()


def read_checklist(text: str) -> list[str]:
    """Return the items of all checklists that are no mere references to other issues."""
    found = (item for item in _boxes(text) if not _REFS.fullmatch(_bare(item)))
    return list(dict.fromkeys(found))


def read_waits(text: str, own: str) -> Iterator[tuple[str, int]]:
    """Yield the repository and number of every issue that a text says it waits for.

    These are named by "blocked by" and "depends on", or are the items of a task list.
    """
    for line in _lines(text):
        for stated in _WAITS.finditer(line):
            yield from _read_refs(stated[1], own)
    for item in _boxes(text):
        if _REFS.fullmatch(_bare(item)):
            yield from _read_refs(item, own)


def _bare(item: str) -> str:
    return re.sub(r"[\s*_`~]+", "", item)


def _read_refs(text: str, own: str) -> Iterator[tuple[str, int]]:
    for found in _REFS.finditer(text):
        parts = _PARTS.fullmatch(found[0])
        if parts is not None:
            yield (parts[1] or own), int(parts[2])


def _boxes(text: str) -> Iterator[str]:
    for line in _lines(text):
        if box := _BOX.match(line):
            yield box[2]


def _lines(text: str) -> Iterator[str]:
    """Yield the lines that are outside of code blocks."""
    fence = ""
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if fence:
            is_end = found and found[1].startswith(fence) and not line.strip().strip(fence[0])
            fence = "" if is_end else fence
        elif found:
            fence = found[1]
        else:
            yield line


_MOST = 1000
_MOST_BLOCKERS = 100
_TITLE = 200


class _Blockers(Struct, frozen=True):
    total_blocked_by: int = 0


class Issue(Struct, frozen=True, kw_only=True):
    """An issue, as far as Segue reads it."""

    number: int
    title: str
    body: str | None = None
    state: str = "open"
    html_url: str = ""
    author_association: str = "NONE"
    labels: tuple[GithubLabel, ...] = ()
    pull_request: dict[str, Any] | None = None
    issue_dependencies_summary: _Blockers | None = None
    repository_url: str = ""


class ReadIssues(Struct, frozen=True):
    """Issues that are tasks, and what a person should know about the others."""

    tasks: tuple[Task, ...]
    notices: tuple[Notice, ...]
    links: Mapping[str, str] = field(default_factory=dict)
    """Where people look at each issue."""


async def read_issues(rest: Rest, wanted: IssueList) -> ReadIssues:
    """Read the issues that are meant, with what they wait for; raises SourceError."""
    notices: list[Notice] = []
    found = await _list(rest, wanted, notices)
    found = _keep_known_authors(found, wanted, notices)
    waits = {issue.number: await _find_waits(rest, wanted, issue, notices) for issue in found}
    open_ones = await _find_open(rest, wanted, found, waits)
    kept = _drop_blocked(found, wanted, waits, open_ones, notices)
    numbers = {issue.number for issue in kept}
    tasks = [_task(issue, sorted(waits[issue.number] & numbers)) for issue in kept]
    return ReadIssues(tuple(tasks), tuple(notices), {str(one.number): one.html_url for one in kept})


async def _list(rest: Rest, wanted: IssueList, notices: list[Notice]) -> list[Issue]:
    base = f"/repos/{wanted.full_name}"
    try:
        if wanted.number is not None:
            found = [await rest.get(f"{base}/issues/{wanted.number}", Issue)]
            if found[0].pull_request is not None:
                raise SourceError(f"{wanted.title} is a pull request, not an issue.", hint="Name an issue")
            return found
        chosen = {"labels": ",".join(wanted.labels)} if wanted.labels else {}
        found = await rest.list(
            f"{base}/issues", Issue, state="open", sort="created", direction="asc", **chosen
        )
    except Refused as refused:
        raise _explain(refused, wanted) from None
    found = sorted((one for one in found if one.pull_request is None), key=lambda one: one.number)
    if not found:
        notices += await _find_unknown_labels(rest, wanted)
    if len(found) > _MOST:
        notices.append(Notice(None, f"There are {len(found)} issues; the first {_MOST} are read."))
    return found[:_MOST]


async def _find_unknown_labels(rest: Rest, wanted: IssueList) -> list[Notice]:
    """Say which labels do not exist: GitHub answers as if no issue had them."""
    if not wanted.labels:
        return []
    known = [one.name for one in await rest.list(f"/repos/{wanted.full_name}/labels", GithubLabel)]
    names = {name.lower() for name in known}
    listed = f"It has: {', '.join(known[:20])}." if known else "It has no labels."
    return [
        Notice(None, f"{wanted.full_name} has no label {name!r}. {listed}")
        for name in wanted.labels
        if name.lower() not in names
    ]


def _explain(refused: Refused, wanted: IssueList) -> SourceError:
    if refused.status in (404, 403):
        return SourceError(
            f"{wanted.title}: there is no such thing on GitHub, or the token may not read it"
            f" (HTTP {refused.status}).",
            hint=refused.hint or "Check the name, and that the token may read issues",
        )
    return SourceError(f"{wanted.title}: {refused.message}", hint=refused.hint)


def _keep_known_authors(found: list[Issue], wanted: IssueList, notices: list[Notice]) -> list[Issue]:
    """Anybody may open an issue: only those of members are taken, and one that is named by its number."""
    if wanted.number is not None:
        return found
    strange = [issue for issue in found if issue.author_association not in MEMBERS]
    if strange:
        notices.append(
            Notice(
                None,
                f"Left out, because their authors are no members of the repository: {_numbers(strange)}."
                f" To take one, name it: {wanted.address.partition('?')[0]}#{strange[0].number}",
            )
        )
    return [issue for issue in found if issue.author_association in MEMBERS]


async def _find_waits(rest: Rest, wanted: IssueList, issue: Issue, notices: list[Notice]) -> set[int]:
    """Return the numbers of what an issue waits for: its text, and GitHub's dependencies."""
    found: set[int] = set()
    elsewhere: set[str] = set()
    for repo, number in read_waits(read_body(issue.body), wanted.full_name):
        if repo.lower() == wanted.full_name.lower():
            found.add(number)
        else:
            elsewhere.add(f"{repo}#{number}")
    if issue.issue_dependencies_summary and issue.issue_dependencies_summary.total_blocked_by:
        place = f"/repos/{wanted.full_name}/issues/{issue.number}/dependencies/blocked_by"
        for other in await rest.list(place, Issue):
            if other.repository_url.lower().endswith(f"/repos/{wanted.full_name}".lower()):
                found.add(other.number)
            elif other.state == "open":
                elsewhere.add(other.html_url)
    notices += [
        Notice(None, f"#{issue.number} waits for {plain(name, 200)}, which is not looked at.")
        for name in sorted(elsewhere)
    ]
    return found - {issue.number}


async def _find_open(
    rest: Rest, wanted: IssueList, found: Sequence[Issue], waits: Mapping[int, set[int]]
) -> set[int]:
    """Return which of the issues that are waited for are open, of those that are not listed."""
    listed = {issue.number for issue in found}
    others = sorted({number for numbers in waits.values() for number in numbers} - listed)
    open_ones = set()
    for number in others[:_MOST_BLOCKERS]:
        try:
            other = await rest.get(f"/repos/{wanted.full_name}/issues/{number}", Issue)
        except Refused:
            continue  # nothing is known about it: somebody mistyped, or it was moved
        if other.state == "open":
            open_ones.add(number)
    return open_ones


def _drop_blocked(
    found: list[Issue],
    wanted: IssueList,
    waits: Mapping[int, set[int]],
    open_ones: set[int],
    notices: list[Notice],
) -> list[Issue]:
    """Leave out what waits for an open issue that is not among those to work on."""
    stuck = set(open_ones)
    kept = list(found)
    while blocked := [issue for issue in kept if waits[issue.number] & stuck]:
        for issue in blocked:
            first = min(waits[issue.number] & stuck)
            if wanted.number is not None:
                notices.append(Notice(None, f"#{issue.number} waits for #{first}, which is open."))
                return kept
            notices.append(
                Notice(
                    None, f"#{issue.number} is left out: it waits for #{first}, which is open and not listed."
                )
            )
            stuck.add(issue.number)
        kept = [issue for issue in kept if issue.number not in stuck]
    return kept


def _task(issue: Issue, waits: Sequence[int]) -> Task:
    key, body = str(issue.number), read_body(issue.body)
    title = plain(issue.title, _TITLE) or f"Issue {key}"
    keys = tuple(map(str, waits))
    return Task(
        key,
        title,
        f"{title}\n\n{body}" if body else title,
        criteria=tuple(
            Criterion(f"#{key}/{number}", text) for number, text in enumerate(read_checklist(body), 1)
        ),
        depends_on=(Dependency(keys, WaitKind.STATED, "GitHub says so"),) if keys else (),
    )


def _numbers(issues: Iterable[Issue]) -> str:
    return list_some([f"#{issue.number}" for issue in issues], 20)
