"""Reports on GitHub how work on issues is going: one comment per run, edited.

A report is put into an outbox first, and sent by a thread. After a kill, or while GitHub is away, the
next run posts it, after a look for what was posted already.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from segue.domain.errors import SegueError, Unavailable
from segue.domain.task import Task
from segue.domain.text import plain_lines
from segue.system.files import exclusive, private_folder, write_atomic
from segue.system.github import GithubUser
from segue.system.http.client import LOOPBACK
from segue.system.http.rest import Refused, Rest
from segue.system.patience import outlast
from segue.system.reading import read_file

ReportState = Literal["working", "person", "done", "skipped"]
_WRITE_PAUSE = 1.0
"""Seconds between two writes, as GitHub asks for."""
_REASON = 1500
_CLOSING = 30.0
"""Seconds that the end of a run waits for what is still to be posted."""


class IssueReport(Struct, frozen=True, omit_defaults=True):
    """How work on an issue is going."""

    state: ReportState
    run: str
    reason: str = ""
    commit: str = ""
    branch: str = ""


class OutboxEntry(Struct, frozen=True, omit_defaults=True):
    """What is known about an issue that was worked on."""

    task: Task
    """As it was then: a closed issue is no longer listed."""
    wanted: IssueReport | None = None
    posted: IssueReport | None = None
    problem: str = ""
    """Why it was not posted."""


class Outbox:
    """The file with what is to be posted, and what was."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> dict[str, OutboxEntry]:
        """Return the notes by task; none if there is no file, or an unreadable one: GitHub has the rest."""
        try:
            return msgspec.json.decode(read_file(self.path), type=dict[str, OutboxEntry])
        except (OSError, SegueError, msgspec.MsgspecError, ValueError):
            return {}

    def change(self, key: str, change: Callable[[OutboxEntry | None], OutboxEntry | None]) -> None:
        """Change one note, alone; None leaves it as it is."""
        private_folder(self.path.parent)
        with exclusive(self.path.with_name(f"{self.path.name}.lock")):
            notes = self.read()
            note = change(notes.get(key))
            if note is None or note == notes.get(key):
                return
            notes[key] = note
            write_atomic(self.path, msgspec.json.format(msgspec.json.encode(notes), indent=1))

    def enqueue(self, task: Task, report: IssueReport) -> None:
        """Put what is to be posted about an issue into the outbox."""
        self.change(task.key, lambda old: OutboxEntry(task, report, old.posted if old else None))

    def pending(self) -> dict[str, IssueReport]:
        """Return what is still to be posted, by issue."""
        notes = self.read()
        return {k: note.wanted for k, note in notes.items() if note.wanted and note.wanted != note.posted}

    def problems(self) -> list[str]:
        """Return what could not be posted, a sentence each."""
        return [
            f"Nothing was posted about #{key}: {note.problem}"
            for key, note in self.read().items()
            if note.problem and note.wanted != note.posted
        ]


class OutboxSender:
    """Sends what is in an outbox, in a thread of its own, or at once."""

    def __init__(self, outbox: Outbox, open_rest: Callable[[], Rest], repo: str) -> None:
        self._outbox = outbox
        self._open_rest = open_rest
        self._repo = repo
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to send in the background."""
        self._ending.clear()
        self._wake.set()
        self._thread = threading.Thread(target=self._work, name="segue-github", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Look at the outbox: there is something new in it; without a thread, send it now."""
        if self._thread is None:
            self.send(_CLOSING)
        else:
            self._wake.set()

    def stop(self) -> None:
        """Wait for a moment until everything is posted, and end the thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._ending.set()
            self._wake.set()
            thread.join(_CLOSING)

    def send(self, patience: float) -> None:
        """Post everything that is pending; what cannot be posted is kept for later."""
        if self._outbox.pending():
            with ThreadPoolExecutor(1) as thread:  # the caller's own may run an event loop
                thread.submit(asyncio.run, self._send_all(patience)).result()

    def _work(self) -> None:
        while not self._ending.is_set() or self._outbox.pending():
            self._wake.wait()
            self._wake.clear()
            ending = self._ending.is_set()
            asyncio.run(self._send_all(_CLOSING / 2 if ending else _CLOSING))
            if ending:
                return

    async def _send_all(self, patience: float) -> None:
        with self._lock:
            pending = self._outbox.pending()
            try:
                async with self._open_rest() as rest:
                    for key, report in pending.items():
                        problem = await self._try(rest, key, report, patience)
                        self._note(key, report, problem)
            except SegueError as error:  # there is no token any more
                for key, report in pending.items():
                    self._note(key, report, error.message)

    async def _try(self, rest: Rest, key: str, report: IssueReport, patience: float) -> str:
        """Send one report; return why that failed, or nothing."""
        try:
            await outlast(lambda: self._send_report(rest, key, report), patience)
        except (SegueError, Unavailable) as error:
            return error.message if isinstance(error, SegueError) else str(error)
        return ""

    def _note(self, key: str, report: IssueReport, problem: str) -> None:
        self._outbox.change(key, lambda old: _after(old, report, problem))

    async def _send_report(self, rest: Rest, key: str, report: IssueReport) -> None:
        """Make the issue show the report. Doing it twice changes nothing."""
        await self._comment(rest, f"/repos/{self._repo}/issues/{key}", key, report)

    async def _comment(self, rest: Rest, base: str, key: str, report: IssueReport) -> None:
        """Write the run's comment; a question is a comment of its own, so that people are notified."""
        kind = "person" if report.state == "person" else "status"
        mark = f"<!-- segue run={report.run} issue={key} {kind} -->"
        body = f"{mark}\n{describe(report)}"
        login = await _find_login(rest)
        own = [
            one
            for one in await rest.list(f"{base}/comments", _IssueRemark)
            if one.is_by(login) and mark in one.body
        ]
        if not own:
            await self._write(rest, "POST", f"{base}/comments", {"body": body})
        elif own[0].body != body:
            place = f"/repos/{self._repo}/issues/comments/{own[0].id}"
            await self._write(rest, "PATCH", place, {"body": body})

    async def _write(self, rest: Rest, method: str, path: str, body: Any = None) -> None:
        await rest.do(method, path, body)
        if urlsplit(rest.address).hostname not in LOOPBACK:
            await asyncio.sleep(_WRITE_PAUSE)


class _IssueRemark(Struct, frozen=True):
    id: int
    body: str = ""
    user: GithubUser | None = field(default=None)

    def is_by(self, login: str) -> bool:
        """Return whether this token wrote it; where nobody says whose it is, whether a program did."""
        if self.user is None:
            return False
        return self.user.login == login if login else self.user.type == "Bot"


async def _find_login(rest: Rest) -> str:
    """Return whose token it is; empty for one that belongs to no person, as in Actions."""
    try:
        return (await rest.get("/user", GithubUser)).login
    except Refused:
        return ""


def describe(report: IssueReport) -> str:
    """Write a report for people."""
    run = f"run `{report.run}`"
    match report.state:
        case "working":
            return f"Segue is working on this ({run})."
        case "done":
            commit = f" Commit {report.commit}" if report.commit else ""
            branch = f" on branch `{report.branch}`" if commit and report.branch else ""
            return f"Segue has done this ({run}).{commit}{branch}{'.' if commit else ''}"
        case "skipped":
            return f"A person decided to leave this out ({run})."
    reason = plain_lines(report.reason, _REASON)
    # In a block of code nobody is mentioned and no issue referred to, whatever an agent says.
    fence = "`" * (max([2, *map(len, re.findall("`+", reason))]) + 1)
    quoted = f"{fence}text\n{reason}\n{fence}"
    more = f"`segue logs {report.run}` shows more; `segue resume {report.run}` tries again."
    return f"Segue needs a person here ({run}):\n\n{quoted}\n\n{more}"


def _after(old: OutboxEntry | None, report: IssueReport, problem: str) -> OutboxEntry | None:
    if old is None:
        return None
    return replace(old, problem=problem) if problem else replace(old, posted=report, problem="")
