"""Issues on GitHub as a source: read once for each run; a comment says how each of them ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self, TypeVar

from segue.domain.errors import SourceError, Unavailable, UsageError
from segue.domain.task import Completion, Task, TaskList, TaskStatus
from segue.ports import Source, SourceRequest
from segue.sources.github.address import IssueList, read_address
from segue.sources.github.comments import describe_end, post_once
from segue.sources.github.issues import read_issues
from segue.sources.github.options import GithubSettings
from segue.sources.progress import pair_key
from segue.sources.recognise import is_github
from segue.system.github import find_access, open_rest
from segue.system.http.rest import Rest, RestWords
from segue.system.retry import retry

_READ_PATIENCE = 60.0
_WRITE_PATIENCE = 10.0
"""Seconds for which GitHub is waited for: before a run, and at the end of a task."""
T = TypeVar("T")


class GithubIssues(Source):
    """The open issues of a repository, or those of them with a label.

    They are read once by each object, so that a run works on what it began with.
    """

    kind = "github"

    @classmethod
    def matches(cls, request: SourceRequest) -> bool:
        """Return whether issues on GitHub were named."""
        return request.named is not None and is_github(request.named)

    @classmethod
    def open(cls, request: SourceRequest) -> Self:
        """Open what was named; nothing is asked of GitHub yet."""
        if request.named is None:
            raise UsageError("No issues were named.", hint="segue run github:OWNER/REPO?label=ready")
        settings = request.options.get("github") or GithubSettings()
        return cls(read_address(request.named), request.repo, settings, request.redact)

    def __init__(
        self, wanted: IssueList, repo: Path, settings: GithubSettings, redact: Callable[[str], str] = str
    ) -> None:
        self.wanted, self._settings, self._redact = wanted, settings, redact
        self.key = pair_key(self.kind, wanted.address, repo)
        self._listing: TaskList | None = None

    @property
    def address(self) -> str:
        """What names the same issues again."""
        return self.wanted.address

    @property
    def title(self) -> str:
        """The repository, and which of its issues."""
        return self.wanted.title

    def tasks(self) -> TaskList:
        """Return the issues, as they were when they were first asked for."""
        if self._listing is None:
            self._listing = ask_github(lambda rest: read_issues(rest, self.wanted), self._redact)
        return self._listing

    def context(self, task: Task) -> str:
        """Return where people discuss the issue."""
        place = f"{self.wanted.full_name}/issues/{task.key}"
        return f"This is issue #{task.key} of {self.wanted.full_name}: https://github.com/{place}"

    def mark(self, task: Task, completion: Completion) -> None:
        """Comment on the issue how the task ended."""
        is_open = completion.status is TaskStatus.PENDING and completion.error is None
        if is_open or not self._settings.comments:
            return
        place = f"/repos/{self.wanted.full_name}/issues/{task.key}/comments"
        text = describe_end(completion, self._redact(completion.error or ""))
        mark = f"run={completion.run} issue={task.key} {completion.status}"
        ask_github(lambda rest: post_once(rest, place, place, mark, text), self._redact, _WRITE_PATIENCE)


def ask_github(
    ask: Callable[[Rest], Coroutine[Any, Any, T]],
    redact: Callable[[str], str],
    patience: float = _READ_PATIENCE,
) -> T:
    """Ask GitHub in a thread with a loop of its own, because the caller's may already run one."""

    async def work() -> T:
        words = RestWords("", "GITHUB_API_URL", "docs/guides/issues.md")
        async with open_rest(find_access(), redact, words) as rest:
            return await retry(lambda: ask(rest), patience)

    with ThreadPoolExecutor(1) as thread:
        try:
            return thread.submit(lambda: asyncio.run(work())).result()
        except Unavailable as error:
            raise SourceError(str(error), kept="What was done so far is kept.") from error
