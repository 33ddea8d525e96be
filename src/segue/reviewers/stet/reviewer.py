"""The stet reviewer: local code review of the commits since a baseline, one stet session per task.

stet's exit code says whether it worked, never whether it found something. It keeps one session per
repository and replaces it without asking, so Segue asks first: a session that somebody else opened is
left alone and a person decides.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

from msgspec.structs import replace

from segue.domain.errors import SegueError
from segue.domain.options import Commands, OptionError, Options, Seconds, Text
from segue.domain.verdict import Finding, Review, ReviewerCall, Severity
from segue.ports import Problem, ReviewSubject
from segue.reviewers.formats import MalformedOutput, parse
from segue.reviewers.options import check_placeholders
from segue.reviewers.stet.session import (
    NO_SESSION,
    Ownership,
    Session,
    exclude_folder,
    identity,
    read_status,
)
from segue.reviewers.tool import ReviewTool, ToolResult, fill_argv, find_missing, in_changed_hunks, locate
from segue.system.isolation.isolate import Isolation
from segue.system.process.processes import child_environment, inside_environment
from segue.system.programs import find
from segue.system.services import Services

FINDINGS = 1
"""The exit code with which a command of the user's says that there are findings."""
_QUICK = 120.0
_PAUSE = 0.5
_BUSY = ("finish or cleanup current review first", "session already active")
_OWN_VARIABLES = "STET_"


class _Failed(Exception):
    """The review could not be done."""

    def __init__(self, why: str, said: ToolResult | None = None, needs_human: bool = False) -> None:
        super().__init__(why)
        self.review = Review(failure=why, output=said.tail if said else "", needs_human=needs_human)


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
        self._ours = Ownership.of(services.repo, services.state_dir)
        passed = [name for name in os.environ if name.startswith(_OWN_VARIABLES)]
        # stet keeps notes in git, so it runs outside of the sandbox, unless agents can write it.
        is_outside = all(find(locate(program, self._repo)) for program in self._programs)
        environment = child_environment if is_outside else inside_environment
        env = environment([*passed, *options.pass_env], options.env)
        isolation = Isolation() if is_outside else services.isolation
        self._tool = ReviewTool(self._repo, env, options.timeout, services.redactor, isolation)
        self._prepared = False

    def take_calls(self) -> list[ReviewerCall]:
        """Return the programs that were called since this was asked last."""
        return self._tool.take_calls()

    def check(self) -> list[Problem]:
        """Report that stet, or what is configured instead, cannot be found."""
        setting = "reviewers.stet.commands" if self._options.commands else "reviewers.stet.cmd"
        found = (find_missing(program, self._repo, self._tool.env, setting) for program in self._programs)
        return [problem for problems in found for problem in problems]

    @property
    def _programs(self) -> list[str]:
        return list(dict.fromkeys(argv[0] for argv in self._options.commands or [[self._options.cmd]]))

    async def review(self, subject: ReviewSubject, again: bool) -> Review:
        """Open a stet session for the task, or look again in the one that is open."""
        try:
            await self._prepare()
            return await self._when_free(subject, again)
        except _Failed as failed:
            return failed.review
        except SegueError as error:
            return Review(failure=error.message)

    async def finish(self, subject: ReviewSubject) -> str:
        """Close our session. A subject without a task means the end of the run."""
        wanted = self._options.finish == "task" or (self._options.finish == "run" and not subject.task)
        if not wanted or not self._has_stet:
            return ""
        try:
            await self._prepare()
            session = await self._session()
        except _Failed as failed:
            return failed.review.failure
        except SegueError as error:
            return error.message
        return await self._close() if session and self._ours.matches(session) else ""

    @property
    def _has_stet(self) -> bool:
        """True if there is a stet to ask; a wrapper may bring its own, in a container for example."""
        return not find_missing(self._options.cmd, self._repo, self._tool.env, "")

    async def _prepare(self) -> None:
        if self._prepared:
            return
        await exclude_folder(self._repo)
        env = self._tool.env
        self._tool = replace(self._tool, env={**env, **await identity(self._repo, env)})
        self._prepared = True

    async def _when_free(self, subject: ReviewSubject, again: bool) -> Review:
        """Wait for a stet that a killed Segue left behind: it runs to its end before ours can start."""
        clock = asyncio.get_running_loop().time
        deadline = clock() + self._options.timeout
        while True:
            try:
                return await self._in_session(subject, again)
            except _Busy:
                if clock() > deadline:
                    raise _Failed(f"another stet has been at work in {self._repo} for too long") from None
            await asyncio.sleep(_PAUSE)

    async def _in_session(self, subject: ReviewSubject, again: bool) -> Review:
        if self._options.commands and not self._has_stet:
            return await self._custom(subject, again)
        session = await self._session()
        if session is not None:
            self._require_ours(session)
            if self._continues(session, subject, again):
                return await self._look_again(session, subject)
            if _is_busy(await self._close()):
                raise _Busy
        await self._quick("cleanup")
        return await self._open(subject, again)

    async def _session(self) -> Session | None:
        said = await self._quick("status")
        if said.broken:
            raise _Failed(said.broken)
        session = read_status(said)
        if session is None and NO_SESSION not in said.err.lower():
            # A corrupt session file, or a folder that is not a repository: stet cannot fix these itself.
            hint = "Fix this (if the session file is corrupt: delete .review/session.json), then resume."
            raise _Failed(f"{said.why('stet status')}\n{hint}", said, needs_human=True)
        return session

    def _require_ours(self, session: Session) -> None:
        if self._ours.matches(session):
            return
        raise _Failed(
            f"A stet review that Segue did not open is under way in {self._repo} "
            f"(baseline {session.baseline[:12]}). Starting another one would replace it. "
            "End it with `stet finish`, then run: segue resume",
            needs_human=True,
        )

    def _continues(self, session: Session, subject: ReviewSubject, again: bool) -> bool:
        if self._options.finish != "task":
            return True  # one session for the whole run
        return again and (bool(self._options.commands) or session.baseline == subject.base)

    async def _open(self, subject: ReviewSubject, again: bool) -> Review:
        if self._options.commands:
            self._ours.claim("")
            review = await self._custom(subject, again)
            session = await self._session()
            if session:
                self._ours.claim(session.baseline)
            return review
        if not subject.base:
            raise _Failed("stet compares with a commit, and this repository had none before the task")
        self._ours.claim(subject.base)
        started = await self._findings("start", subject.base)
        ran = await self._findings("run")
        return replace(ran, findings=_merge(started.findings, ran.findings))

    async def _look_again(self, session: Session, subject: ReviewSubject) -> Review:
        if self._options.commands:
            return await self._custom(subject, again=True)
        if session.dismissed:
            # `run` passes over every hunk with a dismissed finding, also one that stet itself took
            # as addressed: new problems there would stay unseen, and what was fixed would stay open.
            return await self._findings("rerun", "--replace")
        review = await self._findings("run")
        # `run` never withdraws a finding whose lines are gone from the diff.
        return replace(review, findings=await in_changed_hunks(self._repo, session.baseline, review.findings))

    async def _custom(self, subject: ReviewSubject, again: bool) -> Review:
        commands = self._options.commands or ()
        said = ToolResult(0)
        for argv in commands[-1:] if again else commands:
            said = await self._tool.run(fill_argv(argv, subject))
            if said.exit_code == FINDINGS and not said.broken and not _is_busy(said.err):
                return self._read_refused(said, argv[0])
            said = await self._checked(said, argv[0])
        return self._read(said)

    def _read_refused(self, said: ToolResult, program: str) -> Review:
        """Read what a command of the user's found that says so by its exit code, in any form.

        One that prints nothing but errors has failed.
        """
        with suppress(MalformedOutput):
            found = parse("stet", said.out, self._repo)
            if found:
                return Review(found, output=said.tail)
        text = said.out.strip()
        if not text:
            raise _Failed(said.why(program), said)
        return Review((Finding("1", "", None, Severity.WARNING, program, text),), output=said.tail)

    async def _findings(self, *arguments: str) -> Review:
        said = await self._tool.run([self._options.cmd, *arguments, "--json"])
        return self._read(await self._checked(said, f"stet {arguments[0]}"))

    async def _checked(self, said: ToolResult, program: str) -> ToolResult:
        if said.broken and self._has_stet:
            await self._quick("cleanup")
        if said.exit_code != 0 and _is_busy(said.err):
            raise _Busy
        if said.broken or said.exit_code != 0:
            raise _Failed(said.why(program), said)
        return said

    def _read(self, said: ToolResult) -> Review:
        try:
            return Review(parse("stet", said.out, self._repo), output=said.tail)
        except MalformedOutput as error:
            raise _Failed(f"stet's output cannot be read: {error}", said) from None

    async def _close(self) -> str:
        said = await self._quick("finish")
        if said.exit_code != 0 and NO_SESSION not in said.err.lower():
            return f"{said.why('stet finish')}\nEnd the review by hand: stet finish"
        self._ours.drop()
        return ""

    async def _quick(self, *arguments: str) -> ToolResult:
        tool = replace(self._tool, timeout=min(self._tool.timeout, _QUICK))
        return await tool.run([self._options.cmd, *arguments])


def _merge(first: Sequence[Finding], second: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings of both commands, each once."""
    return tuple({finding.id: finding for finding in (*first, *second)}.values())


def _is_busy(words: str) -> bool:
    return any(text in words for text in _BUSY)
