"""The command reviewer: any linter, scanner or review tool whose output one of the formats reads."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import Any, Literal

from segue.domain.errors import SegueError, WorkspaceError
from segue.domain.options import Argv, OptionError, Options, Seconds, fill_placeholders
from segue.domain.verdict import Finding, Review, ReviewerCall
from segue.ports import Problem, ReviewSubject
from segue.reviewers.formats import Format, MalformedOutput, make_finding, parse
from segue.reviewers.tool import PLACEHOLDERS, ReviewTool, ToolResult, fill_argv, find_missing
from segue.system.git.folders import find_place
from segue.system.git.outside import PLAIN_DIFF, run_outside
from segue.system.process.processes import inside_environment
from segue.system.services import Services


def check_placeholders(name: str, argv: Argv | None) -> None:
    """Raise OptionError for a placeholder that a command of a reviewer cannot have."""
    try:
        for argument in argv or ():
            fill_placeholders(argument, dict.fromkeys(PLACEHOLDERS, ""))
    except ValueError as error:
        raise OptionError(name, str(error)) from None


class CommandReviewOptions(Options, frozen=True):
    """The table `[reviewers.command]`."""

    argv: Argv
    """The program and its arguments. Replaced in it: {base}, {head}, {repo}, {task}; a brace is {{ or }}."""
    format: Format
    """What it prints: sarif, stet or exit-code."""
    needs_commit: bool = False
    """It sees commits only, so Segue must commit first."""
    scope: Literal["changed", "all"] = "changed"
    """`changed`: ignore findings in files the task has not touched. `all`: keep them."""
    findings_codes: tuple[int, ...] = (1,)
    """Exit codes that mean findings; 0 is success, all others are failures."""
    timeout: Seconds = 1800
    """Seconds it may take."""
    pass_env: tuple[str, ...] = ()
    """Environment variables the program may see."""
    env: dict[str, str] = {}
    """Environment variables to set for the program."""

    def __post_init__(self) -> None:
        check_placeholders("argv", self.argv)


class CommandReviewer:
    """Runs a tool of the user's choice and reads its findings."""

    Options = CommandReviewOptions

    def __init__(self, options: CommandReviewOptions, services: Services, name: str = "command") -> None:
        self.name = name
        self.needs_commit = options.needs_commit
        self._options = options
        self._program = PurePath(options.argv[0]).name
        # Tools print the path they find themselves in, with links resolved.
        self._repo = services.repo.resolve()
        env = inside_environment(options.pass_env, options.env)
        self._tool = ReviewTool(self._repo, env, options.timeout, services.redactor, services.isolation)

    def take_calls(self) -> list[ReviewerCall]:
        """Return the programs that were called since this was asked last."""
        return self._tool.take_calls()

    def check(self) -> list[Problem]:
        """Report a problem if the program is not found."""
        return find_missing(self._options.argv[0], self._tool, f"reviewers.{self.name}.argv")

    async def review(self, subject: ReviewSubject, again: bool) -> Review:  # noqa: ARG002 - it looks at all
        """Run the tool and read its findings."""
        options, result = self._options, await self._tool.run(fill_argv(self._options.argv, subject))
        if result.broken or result.exit_code not in (0, *options.findings_codes):
            return Review(failure=result.explain(self._program), output=result.tail)
        try:
            findings = self._read(result)
            if options.scope == "changed" and subject.base:
                findings = await in_changed_files(self._repo, subject.base, findings)
        except MalformedOutput as error:
            return Review(
                failure=f"the output of {self._program} cannot be read: {error}", output=result.tail
            )
        except SegueError as error:
            return Review(failure=error.message, output=result.tail)
        return Review(findings, output=result.tail)

    async def finish(self, subject: ReviewSubject) -> str:  # noqa: ARG002 - as above
        """Do nothing: a plain tool keeps no session."""
        return ""

    def _read(self, result: ToolResult) -> tuple[Finding, ...]:
        has_findings = result.exit_code != 0
        if self._options.format == "exit-code":
            message = result.tail or f"{self._program} ended with exit code {result.exit_code}"
            return (make_finding("", None, "error", self._program, message),) if has_findings else ()
        findings = parse(self._options.format, result.out, self._repo)
        if has_findings and not findings:
            raise MalformedOutput(
                f"exit code {result.exit_code} means findings, but the output contains none"
            )
        return findings


async def in_changed_files(repo: Path, base: str, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings in files changed or added since the base, committed or not, or in no file."""
    names = await _git(repo, "diff", "--name-only", "-z", *PLAIN_DIFF, base, "--")
    names += await _git(repo, "ls-files", "--others", "--exclude-standard", "-z")
    changed = {name.decode("utf-8", "replace") for name in names.split(b"\0") if name}
    return tuple(finding for finding in findings if not finding.file or finding.file in changed)


async def _git(repo: Path, *arguments: str) -> bytes:
    place = find_place(repo)
    if place is None:
        raise WorkspaceError(f"git cannot tell what has changed: {repo} is not in a git repository")
    done = await run_outside(place, *arguments)
    if done.exit_code != 0:
        message = done.err.decode("utf-8", "replace").strip()
        raise WorkspaceError(f"git cannot tell what has changed: {message or done.exit_code}")
    return done.out


class KnownTool:
    """A tool that needs no options, because it is known by name; the user may change some."""

    Options = CommandReviewOptions

    def __init__(self, name: str, *argv: str) -> None:
        self.name = name
        self.defaults: dict[str, Any] = {"argv": list(argv), "format": "sarif"}

    def __call__(self, options: CommandReviewOptions, services: Services) -> CommandReviewer:
        """Build the reviewer that runs the tool."""
        return CommandReviewer(options, services, self.name)


# Reviewing changes nothing: no cache in the work tree, no fixes even if ruff's settings want them.
RUFF = KnownTool("ruff", "ruff", "check", "--no-cache", "--no-fix", "--output-format", "sarif", ".")
SEMGREP = KnownTool(
    "semgrep", "semgrep", "scan", "--config", ".semgrep.yml", "--sarif", "--quiet", "--metrics=off", "."
)
