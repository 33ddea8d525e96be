"""Pull requests: push the branch of a run, open one request for it or update it, and read what comes back.

Segue's part of the body is between hidden marks; logs of CI are cut to the failure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from segue.deliveries.hosting import (
    HostedPlace,
    PullRequest,
    PullRequestOptions,
    ReviewThread,
    find_key,
    find_place,
    key_names,
)
from segue.domain.delivery import Delivered, Feedback, FeedbackItem, FeedbackKind, Target
from segue.domain.errors import CredentialsError, NeedsHuman, SegueError, UsageError
from segue.ports import Delivery, Handover, Problem
from segue.system.http.rest import Refused
from segue.system.redact import Redactor
from segue.system.services import Services

if TYPE_CHECKING:
    from segue.deliveries.github import GitHub

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[@-_]|[\x00-\x08\x0b-\x1f\x7f]")
_STAMP = re.compile(r"^\ufeff?\d{4}-\d\d-\d\dT[\d:.]+Z ")
_FAILS = re.compile(
    r"##\[error\]|^E  |\bERROR\b|\bError:|\berror(?:\[\w+\])?:|\bFAIL(?:ED|URES?)?\b|Traceback \(most|panic:"
    r"|^not ok |AssertionError|✗|✖"
)
_LAST = re.compile(r"##\[error\]Process completed with exit code")
_BEFORE, _AFTER = 30, 60
MOST_BODY = 60_000
"""GitHub takes 65,536 characters."""


def mark_of(run: str) -> str:
    """Return the hidden mark that a run's pull request starts its part with, up to where details begin."""
    return f"<!-- segue:run={run}"


_END = "<!-- segue:end -->"
_PART = re.compile(r"<!-- segue:run=[^>]*-->.*?(?:<!-- segue:end -->|\Z)", re.DOTALL)


def write_body(before: str, run: str, text: str, drafted: bool) -> str:
    """Return the body with Segue's part replaced; what people wrote around it stays."""
    room = MOST_BODY - len(_PART.sub("", before))
    cut = (
        text
        if len(text) <= room
        else f"{text[: max(0, room - 200)].rstrip()}\n\n… (the rest: `segue proof {run}`)"
    )
    start = f"{mark_of(run)}{' draft' if drafted else ''} -->"
    part = f"{start}\n{cut.strip()}\n{_END}"
    if _PART.search(before):
        return _PART.sub(lambda _found: part, before, count=1)
    return f"{before.rstrip()}\n\n{part}" if before.strip() else part


def was_drafted(body: str, run: str) -> bool:
    """Return whether Segue itself has opened it as a draft and has not made it ready since."""
    return f"{mark_of(run)} draft -->" in body


def is_ours(body: str, run: str) -> bool:
    """Return whether a body has the mark of the run."""
    return f"{mark_of(run)} " in body


def reply_mark(mark: str) -> str:
    """Return the hidden mark of an answer."""
    return f"<!-- segue:reply={mark} -->"


def is_reply(text: str) -> bool:
    """Return whether Segue wrote a comment."""
    return "<!-- segue:reply=" in text


def cut_log(log: str, most: int = 6000) -> str:
    """Return the part of a log that shows the failure, without colours and times."""
    lines = [_STAMP.sub("", _ANSI.sub("", line)).rstrip() for line in log.splitlines()]
    end = next((number for number, line in enumerate(lines) if _LAST.search(line)), len(lines))
    lines = lines[: end + 1]
    named = [number for number, line in enumerate(lines[:end]) if _FAILS.search(line)]
    if not named:
        return _bound("\n".join(lines[-_AFTER:]), most)
    # The last group of lines that name a failure: earlier ones are often warnings of the set-up.
    first = named[-1]
    for number in reversed(named):
        if first - number > _AFTER:
            break
        first = number
    start = max(0, first - _BEFORE)
    return _bound("\n".join(lines[start : named[-1] + _AFTER]), most)


def _bound(text: str, most: int) -> str:
    """Return the end of a text, where errors are summed up, and a bit of its beginning."""
    text = text.strip("\n")
    if len(text) <= most:
        return text
    head = most // 3
    return f"{text[:head].rstrip()}\n[…]\n{text[-(most - head - 10) :].lstrip()}"


_LABEL = "proof: "
_MOST_COMMENT = 8000
_MOST_LOGS = 24_000


class PullRequestDelivery(Delivery):
    """Proposes the work of a run as a pull request on GitHub."""

    Options = PullRequestOptions
    name = "pr"
    needs_remote = True

    def __init__(self, options: PullRequestOptions, services: Services) -> None:
        self._options = options
        self._services = services
        self._known: dict[str, GitHub] = {}

    async def check(self, target: Target) -> list[Problem]:
        """Return what is missing: GitHub, a token, a right."""
        place = find_place(self._options, target.remote)
        if isinstance(place, Problem):
            return [place]
        try:
            hosting = self._open(place)
        except CredentialsError as error:
            return [Problem(error.message, error.hint, 4)]
        try:
            return await hosting.check()
        except (CredentialsError, UsageError) as error:
            return [Problem(error.message, error.hint, error.exit_code)]
        except SegueError as error:
            return [Problem(error.message, error.hint)]

    async def deliver(self, work: Handover) -> Delivered:
        """Push, then open the request, or find and update the one that is there."""
        if work.branch == work.target.base:
            raise NeedsHuman(
                f"The work is on {work.branch}, which is also the branch it is meant for.",
                kept="Nothing was pushed.",
                hint="Move it to a branch of its own: git switch -c NAME",
            )
        hosting = self._hosting(work.target)
        found = await self._find(hosting, work)
        if found is not None and found.state != "open":
            return self._describe(
                found, work, f"was {found.state} before the work ended, so nothing was pushed"
            )
        await work.push()
        draft = not work.ready
        if found is None:
            found = await self._create(hosting, work, draft)
        was_draft = was_drafted(found.body, work.run)
        makes_ready = found.draft and was_draft and work.ready
        body = write_body(found.body, work.run, work.text, drafted=was_draft and not makes_ready)
        if makes_ready:
            await hosting.make_ready(found)
        if body != found.body:
            await hosting.rewrite(found, body)
        said = await self._label(hosting, found, work)
        return self._describe(found, work, said, draft=found.draft and not makes_ready)

    async def feedback(self, target: Target, delivered: Delivered) -> Feedback | None:
        """Return what CI, reviewers and GitHub itself say about the request."""
        if not delivered.number:
            return None
        hosting = self._hosting(target)
        request = await hosting.read(delivered.number)
        if request.state != "open":
            return Feedback(state=request.state)
        jobs, threads = await hosting.jobs(request), await hosting.threads(request)
        items: list[FeedbackItem] = []
        if request.conflicts:
            items.append(_conflict(request))
        if jobs.failed and not jobs.pending:
            items.append(_failures(request, [(job.name, job.url, job.log) for job in jobs.failed]))
        counted, ignored = self._sort(threads)
        items += [_review(thread) for thread in counted]
        pending = [*jobs.pending, *(["whether it can be merged"] if request.conflicts is None else [])]
        return Feedback(
            head=request.head,
            items=tuple(items),
            pending=tuple(pending),
            unreadable=jobs.unreadable,
            ignored=tuple(ignored),
        )

    async def answer(
        self, target: Target, delivered: Delivered, item: FeedbackItem, text: str, mark: str
    ) -> None:
        """Answer in the item's thread."""
        if item.thread:
            hosting = self._hosting(target)
            request = await hosting.read(delivered.number)
            await hosting.reply(request, item.thread, f"{text}\n\n{reply_mark(mark)}", reply_mark(mark))

    async def _find(self, hosting: GitHub, work: Handover) -> PullRequest | None:
        """Return the run's request: an open one from its branch, or else one with its mark."""
        known = await hosting.find(work.branch)
        opened = [one for one in known if one.state == "open"]
        ours = [one for one in known if is_ours(one.body, work.run)]
        return next(iter([*[one for one in opened if one in ours], *opened, *ours]), None)

    async def _create(self, hosting: GitHub, work: Handover, draft: bool) -> PullRequest:
        body = write_body("", work.run, work.text, draft)
        try:
            return await hosting.open(work.branch, work.target.base, work.title, body, draft)
        except Refused as refused:
            # Another process, or one that was killed, may have opened it: there is never a second one.
            found = await self._find(hosting, work) if refused.status == 422 else None
            if found is not None:
                return found
            if refused.status == 422 and draft and "draft" in refused.said.lower():
                body = write_body("", work.run, work.text, drafted=False)
                return await hosting.open(work.branch, work.target.base, work.title, body, False)
            raise NeedsHuman(
                f"The pull request could not be opened. {refused.message}",
                kept=f"The work is on branch {work.branch}, and pushed.",
                hint=refused.hint or f"Fix that, then: segue resume {work.run}",
            ) from refused

    async def _label(self, hosting: GitHub, request: PullRequest, work: Handover) -> str:
        """Label the request by its level of proof; return a word about it when that is not possible."""
        label = f"{_LABEL}{work.level or 'incomplete'}"
        old = [one for one in request.labels if one.startswith(_LABEL) and one != label]
        new = [] if label in request.labels else [label]
        if not (old or new):
            return ""
        try:
            await hosting.relabel(request, new, old)
        except Refused as refused:
            return f"could not be labelled ({refused.said or refused.status})"
        return ""

    def _describe(
        self, request: PullRequest, work: Handover, said: str = "", draft: bool = False
    ) -> Delivered:
        kind = "draft pull request" if draft else "pull request"
        words = f"The work is in {kind} #{request.number}: {request.url}"
        return Delivered(
            words=f"{words} It {said}." if said else words,
            merged=request.state == "merged",
            kind=self.name,
            head=work.head,
            branch=work.branch,
            base=request.base,
            number=request.number,
            url=request.url,
            draft=draft,
            label=f"{_LABEL}{work.level or 'incomplete'}",
        )

    def _sort(self, threads: list[ReviewThread]) -> tuple[list[ReviewThread], list[str]]:
        """Part threads into those that count and sentences about the others."""
        counted: list[ReviewThread] = []
        strangers: dict[str, int] = {}
        for thread in threads:
            last = thread.comments[-1]
            if is_reply(last.text):
                continue
            if last.member or last.author in self._options.authors:
                counted.append(thread)
            else:
                strangers[last.author] = strangers.get(last.author, 0) + 1
        why = "not a member of the repository (allow it with authors in [deliveries.pr])"
        said = [f"Comments of {name} do not count ({number}): {why}." for name, number in strangers.items()]
        return counted, said

    def _hosting(self, target: Target) -> GitHub:
        place = find_place(self._options, target.remote)
        if isinstance(place, Problem):
            raise UsageError(place.message, kept="The work is on its branch.", hint=place.fix)
        return self._open(place)

    def _open(self, place: HostedPlace) -> GitHub:
        """Return the repository with its token; raises CredentialsError when there is none."""
        known = self._known.get(place.api + place.project)
        if known is not None:
            return known
        options = self._options
        named = options.api is not None
        key = find_key(place, named, self._services.state_dir)
        if not key:
            names = " or ".join(key_names(place, named))
            raise CredentialsError(
                f"There is no token for {place.host or place.api}, so no pull request can be opened.",
                kept="Nothing was started.",
                hint=f"Set {names}, or log in with: gh auth login. "
                "What it must be allowed to do: docs/guides/pull-requests.md",
            )
        own, redactor = Redactor([key]), self._services.redactor

        def clean(text: str) -> str:
            return own.text(redactor.text(text))

        from segue.deliveries.github import GitHub

        hosting = GitHub(place, key, clean)
        self._known = {place.api + place.project: hosting}
        return hosting


def _conflict(request: PullRequest) -> FeedbackItem:
    return FeedbackItem(
        id=f"conflict:{request.head}",
        kind=FeedbackKind.CONFLICT,
        title=f"Resolve the conflicts with {request.base}",
        text=f"The branch cannot be merged into {request.base}: both have changed the same lines.",
        url=request.url,
    )


def _failures(request: PullRequest, jobs: list[tuple[str, str, str]]) -> FeedbackItem:
    """Return the failed jobs of a commit as one item: they often have one cause."""
    names = ", ".join(name for name, _url, _log in jobs[:3]) + (" …" if len(jobs) > 3 else "")
    each = max(1000, min(6000, _MOST_LOGS // len(jobs)))
    parts = [f"## {name}\n{url}\n\n{cut_log(log, each) or '(no log)'}" for name, url, log in jobs]
    return FeedbackItem(
        id=f"ci:{request.head}",
        kind=FeedbackKind.CI,
        title=f"Fix CI: {names}",
        text="\n\n".join(parts)[: _MOST_LOGS * 2],
        url=next((url for _name, url, _log in jobs if url), request.url),
    )


def _review(thread: ReviewThread) -> FeedbackItem:
    last = thread.comments[-1]
    where = f" on {thread.path}" + (f":{thread.line}" if thread.line else "") if thread.path else ""
    text = "\n\n".join(_lines(thread))
    return FeedbackItem(
        id=f"review:{thread.id}:{last.id}",
        kind=FeedbackKind.REVIEW,
        title=f"Address the review of {last.author}{where}",
        text=text,
        url=last.url,
        author=last.author,
        thread=thread.id,
    )


def _lines(thread: ReviewThread) -> Iterator[str]:
    if thread.path:
        yield f"File: {thread.path}" + (f", line {thread.line}" if thread.line else "")
    if thread.asks_for_changes:
        yield "A review requests changes:"
    for one in thread.comments:
        yield f"{one.author}: {one.text.strip()[:_MOST_COMMENT]}"
