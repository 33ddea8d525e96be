"""Reads issues from GitHub and makes tasks of them: their text, their checklists, what they wait for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from segue.domain.amounts import format_count, list_some
from segue.domain.errors import SourceError
from segue.domain.graph import Dependency, WaitKind
from segue.domain.task import Notice, Task, TaskList
from segue.domain.text import clean, plain
from segue.domain.verdict import Criterion
from segue.sources.github.address import IssueList
from segue.sources.markdown import Markdown
from segue.system.github import MEMBERS
from segue.system.http.rest import Refused, Rest

_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_LONGEST = 65_536
_WAITS = re.compile(
    r"\b(?:blocked\s+by|depends\s+(?:up)?on)\b[\s:*_]*(#\d+(?:\s*(?:,|&|\band\b)?\s*#\d+)*)", re.I
)
_MOST = 1000
_TITLE = 200


class Issue(Struct, frozen=True, kw_only=True):
    """An issue, as far as Segue reads it."""

    number: int
    title: str
    body: str | None = None
    state: str = "open"
    html_url: str = ""
    author_association: str = "NONE"
    pull_request: dict[str, Any] | None = None


async def read_issues(rest: Rest, wanted: IssueList) -> TaskList:
    """Return the issues that are meant as tasks, with what they wait for; raises SourceError."""
    notices: list[Notice] = []
    found = _keep_members(await _list(rest, wanted), wanted, notices)
    waits = {issue.number: set(read_waits(read_body(issue.body))) - {issue.number} for issue in found}
    others = {number for numbers in waits.values() for number in numbers} - waits.keys()
    if others:
        place = f"/repos/{wanted.full_name}/issues"
        listed = await rest.list(place, Issue, state="open")
        others &= {issue.number for issue in listed}
    kept = _drop_blocked(found, wanted, waits, others, notices)
    numbers = {issue.number for issue in kept}
    tasks = tuple(_task(issue, sorted(waits[issue.number] & numbers)) for issue in kept)
    return TaskList(tasks, tuple(notices), f"Read from GitHub: {format_count(len(tasks), 'issue')}.")


def read_body(body: str | None) -> str:
    """Return what people see of a text: hidden comments and characters are left out."""
    return clean(_COMMENT.sub("", (body or "")[:_LONGEST].replace("\r\n", "\n"))).strip()


def read_waits(text: str) -> Iterator[int]:
    """Yield the number of every issue of the repository that a text says it waits for."""
    found = Markdown.read(text)
    for number, line in enumerate(found.lines):
        for stated in _WAITS.findall(line) if number not in found.hidden else ():
            yield from map(int, re.findall(r"\d+", stated))


def read_checklist(text: str) -> list[str]:
    """Return the items of all checklists."""
    return list(dict.fromkeys(box[3].rstrip() for _, box in Markdown.read(text).boxes()))


def explain(refused: Refused, title: str) -> SourceError:
    """Return why GitHub does not show something."""
    if refused.status in (404, 403):
        return SourceError(
            f"{title}: there is no such thing on GitHub, or the token may not read it"
            f" (HTTP {refused.status}).",
            hint=refused.hint or "Check the name, and what the token may read",
        )
    return SourceError(f"{title}: {refused.message}", hint=refused.hint)


async def _list(rest: Rest, wanted: IssueList) -> list[Issue]:
    base = f"/repos/{wanted.full_name}/issues"
    try:
        if wanted.number is not None:
            return [await rest.get(f"{base}/{wanted.number}", Issue)]
        chosen = {"labels": ",".join(wanted.labels)} if wanted.labels else {}
        found = await rest.list(base, Issue, state="open", sort="created", direction="asc", **chosen)
    except Refused as refused:
        raise explain(refused, wanted.title) from None
    issues = sorted((one for one in found if one.pull_request is None), key=lambda one: one.number)
    return issues[:_MOST]


def _keep_members(found: list[Issue], wanted: IssueList, notices: list[Notice]) -> list[Issue]:
    """Anybody may open an issue: only those of members are taken, and one that is named by its number."""
    strange = [f"#{one.number}" for one in found if one.author_association not in MEMBERS]
    if wanted.number is not None or not strange:
        return found
    text = f"Left out, because their authors are no members of the repository: {list_some(strange, 20)}."
    notices.append(Notice(None, f"{text} To take one, name it: github:{wanted.full_name}{strange[0]}"))
    return [issue for issue in found if issue.author_association in MEMBERS]


def _drop_blocked(
    found: list[Issue],
    wanted: IssueList,
    waits: Mapping[int, set[int]],
    open_ones: set[int],
    notices: list[Notice],
) -> list[Issue]:
    """Leave out what waits for an open issue that is not among those to work on."""
    stuck, kept = set(open_ones), list(found)
    while blocked := [issue for issue in kept if waits[issue.number] & stuck]:
        for issue in blocked:
            first = min(waits[issue.number] & stuck)
            if wanted.number is not None:
                notices.append(Notice(None, f"#{issue.number} waits for #{first}, which is open."))
                return kept
            text = f"#{issue.number} is left out: it waits for #{first}, which is open and not listed."
            notices.append(Notice(None, text))
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
        depends_on=(Dependency(keys, WaitKind.STATED, "its issue says so"),) if keys else (),
    )
