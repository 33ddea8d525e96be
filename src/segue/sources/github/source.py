"""Issues on GitHub as a source: read once for each run; their progress is posted there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from msgspec.structs import replace

from segue.domain.amounts import format_count
from segue.domain.errors import UsageError
from segue.domain.source import SourceHistory
from segue.domain.task import Completion, Notice, Task, TaskList, TaskStatus
from segue.ports import SourceRequest
from segue.sources.github.address import IssueList, read_address
from segue.sources.github.issues import ReadIssues, read_issues
from segue.sources.github.options import GithubSettings
from segue.sources.github.posting import IssueReport, Outbox, OutboxSender, ReportState
from segue.sources.listed import ListedSource, Reading
from segue.sources.recognise import is_github
from segue.system.github import find_access, open_rest
from segue.system.http.rest import Rest, RestWords
from segue.system.patience import outlast

_READ_PATIENCE = 60.0
"""Seconds for which GitHub is waited for before a run; at work nothing waits for it."""
_RESTORE_PATIENCE = 10.0
_REST_WORDS = RestWords("", "GITHUB_API_URL", "docs/guides/issues.md")


class GithubIssues(ListedSource):
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
        return cls(read_address(request.named), request.repo, request.state_dir, settings, request.redact)

    def __init__(
        self,
        wanted: IssueList,
        repo: Path,
        state_dir: Path,
        settings: GithubSettings,
        redact: Callable[[str], str] = str,
    ) -> None:
        self.wanted = wanted
        self._settings = settings
        self._redact = redact
        self._read_once: tuple[ReadIssues, Reading] | None = None
        super().__init__(wanted.address, repo, state_dir)
        self.outbox = Outbox(self.state.path.with_suffix(".notes"))
        self._sender = OutboxSender(self.outbox, self._rest, wanted.full_name)

    @property
    def title(self) -> str:
        """The repository, and which of its issues."""
        return self.wanted.title

    def tasks(self) -> TaskList:
        """Return the issues with what is done of them, and those that Segue has done and closed since."""
        listing = super().tasks()
        problems = tuple(Notice(None, text) for text in self.outbox.problems())
        return replace(listing, notices=(*listing.notices, *problems))

    def context(self, task: Task) -> str:
        """Return where people discuss the issue."""
        link = self._load()[0].links.get(task.key, "")
        return f"This is issue #{task.key} of {self.wanted.full_name}. {link}".strip()

    def announce(self, task: Task, run: str) -> None:
        """Say on the issue that work on it begins."""
        self._report(task, IssueReport("working", run))

    def mark(self, task: Task, completion: Completion) -> None:
        """Record the completion, and say it on the issue."""
        super().mark(task, completion)
        states: dict[TaskStatus, ReportState] = {TaskStatus.DONE: "done", TaskStatus.SKIPPED: "skipped"}
        state = states.get(completion.status)
        if state is not None:
            commit, branch = completion.commit or "", completion.branch or ""
            self._report(task, IssueReport(state, completion.run, commit=commit, branch=branch))

    def record(self, task: Task, completion: Completion) -> None:
        """Say on the issue that a person is needed."""
        reason = self._redact(completion.error or "It could not be finished.")
        self._report(task, IssueReport("person", completion.run, reason))

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Send reports to GitHub in the background while the block runs."""
        self._sender.start()
        try:
            yield
        finally:
            self._sender.stop()

    def restore(self, history: SourceHistory) -> str:
        """Restore the record of what is done, and send reports that an earlier run could not."""
        self._sender.send(_RESTORE_PATIENCE)
        return super().restore(history)

    def _report(self, task: Task, report: IssueReport) -> None:
        if not self._settings.comments:
            return
        self.outbox.enqueue(task, report)
        self._sender.wake()

    def _read(self) -> Reading:
        return self._load()[1]

    def _load(self) -> tuple[ReadIssues, Reading]:
        """Read the issues, once; what Segue has completed stays in the list when it is closed."""
        if self._read_once is None:
            found = _run_apart(self._fetch)
            listed = {task.key for task in found.tasks}
            marks = self.state.load()
            notes = self.outbox.read()
            known = marks.tasks if marks else {}
            gone = [
                replace(notes[key].task, depends_on=()) for key in known if key not in listed and key in notes
            ]
            self._read_once = found, _in_order((*found.tasks, *gone), found.notices)
        return self._read_once

    async def _fetch(self) -> ReadIssues:
        async with self._rest() as rest:
            return await outlast(lambda: read_issues(rest, self.wanted), _READ_PATIENCE)

    def _rest(self) -> Rest:
        return open_rest(find_access(), self._redact, _REST_WORDS)


def _in_order(tasks: Sequence[Task], notices: Sequence[Notice]) -> Reading:
    ordered = sorted(tasks, key=lambda task: int(task.key))
    return Reading.of(ordered, notices, f"Read from GitHub: {format_count(len(tasks), 'issue')}.")


def _run_apart(read: Callable[[], Coroutine[Any, Any, ReadIssues]]) -> ReadIssues:
    """Run it in a thread with a loop of its own, because the caller's thread may already run one."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(read())).result()
