"""The stet reviewer: local code review of the commits since a baseline, one stet session per task.

stet's exit code says whether it worked, never whether it found something. It keeps one session per
repository and replaces it without asking, so Segue asks first: a session with another baseline than the task
is left alone.
"""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import suppress
from typing import Literal

from msgspec.structs import replace

from segue.domain.errors import SegueError
from segue.domain.options import Commands, OptionError, Options, Seconds, Text
from segue.domain.verdict import Finding, Review, ReviewerCall
from segue.ports import Problem, ReviewSubject
from segue.reviewers.command import check_placeholders
from segue.reviewers.formats import MalformedOutput, make_finding, parse
from segue.reviewers.tool import ReviewTool, ToolResult, fill_argv, find_missing, locate
from segue.system.beneath import write_still
from segue.system.files import read_start
from segue.system.git.folders import find_place
from segue.system.process.processes import child_environment, inside_environment
from segue.system.programs import find
from segue.system.sandbox.isolation import Isolation
from segue.system.services import Services

FINDINGS = 1
"""The exit code with which a command of the user's says that there are findings."""
_QUICK = 120.0
_PAUSE = 0.5
_NO_SESSION = "no active session"
_BUSY = ("finish or cleanup current review first", "session already active")
_FOLDER = {b".review", b".review/", b"/.review", b"/.review/"}
"""Ways to write stet's folder in git's list of what to leave out."""
_IDENTITY = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "Segue"), ("EMAIL", "segue@localhost"))
}
"""stet writes notes, which git refuses without a name."""


class _Failed(Exception):
    """The review could not be done."""


class _Busy(Exception):
    """Another stet is at work in the repository."""


class StetOptions(Options, frozen=True):
    """The table `[reviewers.stet]`."""

    cmd: Text = "stet"
    """The program: a name on PATH, or a path."""
    timeout: Seconds = 1800
    """Seconds one review may take. stet asks its model once per changed hunk."""
    finish: Literal["task", "run", "never"] = "task"
    """When to finish stet's review: after each task, at the end of the run, or never."""
    commands: Commands | None = None
    """Run these instead of `stet start` and `stet run`: all of them when a review begins, the last one again
    after each address round. Exit code 1 means findings, in stet's JSON or as text. Replaced in it: {base},
    {head}, {repo}, {task}; a brace is {{ or }}."""
    pass_env: tuple[str, ...] = ()
    """Environment variables stet may see, besides STET_* and the harmless ones."""
    env: dict[str, str] = {}
    """Environment variables to set for stet."""

    def __post_init__(self) -> None:
        if self.commands is not None and not self.commands:
            raise OptionError("commands", "needs at least one command")
        for command in self.commands or ():
            check_placeholders("commands", command)


class StetReviewer:
    """Reviews commits with stet."""

    Options = StetOptions
    name = "stet"
    needs_commit = True

    def __init__(self, options: StetOptions, services: Services) -> None:
        self._options = options
        self._repo = services.repo.resolve()
        self._programs = list(dict.fromkeys(argv[0] for argv in options.commands or [[options.cmd]]))
        passed = [name for name in os.environ if name.startswith("STET_")]
        # stet keeps notes in git, so it runs outside of the sandbox, unless agents can write it.
        is_outside = all(find(locate(program, self._repo)) for program in self._programs)
        environment = child_environment if is_outside else inside_environment
        env = {**_IDENTITY, **environment([*passed, *options.pass_env], options.env)}
        isolation = Isolation() if is_outside else services.isolation
        self._tool = ReviewTool(self._repo, env, options.timeout, services.redactor, isolation)

    def take_calls(self) -> list[ReviewerCall]:
        """Return the programs that were called since this was asked last."""
        return self._tool.take_calls()

    def check(self) -> list[Problem]:
        """Report that stet, or what is configured instead, cannot be found."""
        setting = "reviewers.stet.commands" if self._options.commands else "reviewers.stet.cmd"
        return [one for program in self._programs for one in find_missing(program, self._tool, setting)]

    async def review(self, subject: ReviewSubject, again: bool) -> Review:
        """Open a stet session for the task, or look again in the one that is open."""
        try:
            self._hide_folder()
            return await self._review_when_free(subject, again)
        except _Failed as failed:
            return Review(failure=str(failed))
        except SegueError as error:
            return Review(failure=error.message)

    async def finish(self, subject: ReviewSubject) -> str:
        """Close our session. A subject without a task means the end of the run."""
        is_due = self._options.finish == "task" or (self._options.finish == "run" and not subject.task)
        if not is_due or not self._has_stet:
            return ""
        try:
            session = await self._read_session()
            is_ours = session is not None and (self._options.finish == "run" or session[0] == subject.base)
            return await self._close() if is_ours else ""
        except _Failed as failed:
            return str(failed)
        except SegueError as error:
            return error.message

    @property
    def _has_stet(self) -> bool:
        """True if there is a stet to ask; a wrapper may bring its own, in a container for example."""
        return not find_missing(self._options.cmd, self._tool, "")

    def _hide_folder(self) -> None:
        """Keep stet's folder out of `git status`, without touching a file that the user commits."""
        place = find_place(self._repo)
        if place is None:
            return  # stet will say so in its own words
        path = (place.common / "info" / "exclude").resolve()
        before = read_start(path)
        if not _FOLDER.intersection(before.split()):
            path.parent.mkdir(exist_ok=True)
            write_still(path, before + (b"" if before[-1:] in (b"", b"\n") else b"\n") + b".review/\n")

    async def _review_when_free(self, subject: ReviewSubject, again: bool) -> Review:
        """Wait for a stet that a killed Segue left behind: it runs to its end before ours can start."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._options.timeout
        while clock() < deadline:
            with suppress(_Busy):
                return await self._review_in_session(subject, again)
            await asyncio.sleep(_PAUSE)
        raise _Failed(f"another stet has been at work in {self._repo} for too long")

    async def _review_in_session(self, subject: ReviewSubject, again: bool) -> Review:
        if self._options.commands and not self._has_stet:
            return await self._run_commands(subject, again)
        session = await self._read_session()
        if session is not None:
            baseline, dismissed = session
            is_ours = self._options.finish != "task" or baseline == subject.base
            if not is_ours:
                raise _Failed(
                    f"a stet review of other commits is under way in {self._repo} "
                    f"(baseline {baseline[:12]}); another would replace it. End it with `stet finish`"
                )
            if again or self._options.finish != "task":
                return await self._look_again(subject, dismissed)
            if _is_busy(await self._close()):
                raise _Busy
        await self._ask("cleanup")
        return await self._open(subject, again)

    async def _read_session(self) -> tuple[str, int] | None:
        """Return the baseline of the open review, and how many findings are dismissed."""
        status = await self._ask("status")
        lines = dict(re.findall(r"^(\w+): *(.*?) *$", status.out, re.MULTILINE))
        if status.exit_code == 0 and lines.get("baseline"):
            dismissed = lines.get("dismissed", "")
            return lines["baseline"], int(dismissed) if dismissed.isdecimal() else 0
        if _NO_SESSION in status.err.lower():
            return None
        hint = "If the session file is corrupt, delete .review/session.json."
        raise _Failed(f"{status.explain('stet status')}\n{hint}")

    async def _open(self, subject: ReviewSubject, again: bool) -> Review:
        if self._options.commands:
            return await self._run_commands(subject, again)
        if not subject.base:
            raise _Failed("stet compares with a commit, and this repository had none before the task")
        started, ran = await self._find("start", subject.base), await self._find("run")
        findings = {finding.id: finding for finding in (*started.findings, *ran.findings)}
        return replace(ran, findings=tuple(findings.values()))

    async def _look_again(self, subject: ReviewSubject, dismissed: int) -> Review:
        if self._options.commands:
            return await self._run_commands(subject, again=True)
        # `run` passes over every hunk with a dismissed finding, and never withdraws one whose lines are gone.
        review = Review() if dismissed else await self._find("run")
        return await self._find("rerun", "--replace") if dismissed or review.findings else review

    async def _run_commands(self, subject: ReviewSubject, again: bool) -> Review:
        commands = list(self._options.commands or [])
        review = Review()
        for argv in commands[-1:] if again else commands:
            result = await self._tool.run(fill_argv(argv, subject))
            has_findings = result.exit_code == FINDINGS and not result.broken and result.out.strip()
            if has_findings and not _is_busy(result.err):
                return Review(self._read_findings(result, argv[0]), output=result.tail)
            await self._require(result, argv[0])
            review = self._read(result) if argv == commands[-1] else review
        return review

    def _read_findings(self, result: ToolResult, program: str) -> tuple[Finding, ...]:
        """Return what a command of the user's found that says so by its exit code, in any form."""
        with suppress(MalformedOutput):
            if findings := parse("stet", result.out, self._repo):
                return findings
        return (make_finding("", None, "warning", program, result.out.strip(), ident="1"),)

    async def _find(self, *arguments: str) -> Review:
        result = await self._tool.run([self._options.cmd, *arguments, "--json"])
        await self._require(result, f"stet {arguments[0]}")
        return self._read(result)

    async def _require(self, result: ToolResult, program: str) -> None:
        """Raise _Failed unless a program worked."""
        if result.broken and self._has_stet:
            await self._ask("cleanup")
        if result.exit_code != 0 and _is_busy(result.err):
            raise _Busy
        if result.broken or result.exit_code != 0:
            raise _Failed(result.explain(program))

    def _read(self, result: ToolResult) -> Review:
        try:
            return Review(parse("stet", result.out, self._repo), output=result.tail)
        except MalformedOutput as error:
            raise _Failed(f"stet's output cannot be read: {error}") from None

    async def _close(self) -> str:
        """Finish the review; return a warning if that failed."""
        result = await self._ask("finish")
        if result.exit_code != 0 and _NO_SESSION not in result.err.lower():
            return f"{result.explain('stet finish')}\nEnd the review by hand: stet finish"
        return ""

    async def _ask(self, command: str) -> ToolResult:
        tool = replace(self._tool, timeout=min(self._tool.timeout, _QUICK))
        return await tool.run([self._options.cmd, command])


def _is_busy(message: str) -> bool:
    return any(words in message for words in _BUSY)
