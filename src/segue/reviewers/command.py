"""The command reviewer: any linter, scanner or review tool whose output one of the formats reads."""

from __future__ import annotations

from pathlib import PurePath

from segue.domain.errors import SegueError
from segue.domain.verdict import Finding, Review, ReviewerCall
from segue.ports import Problem, ReviewSubject
from segue.reviewers.formats import MalformedOutput, exit_code_finding, parse
from segue.reviewers.options import PRESETS, CommandReviewOptions
from segue.reviewers.tool import ReviewTool, ToolResult, fill_argv, find_missing, in_changed_files
from segue.system.process.processes import inside_environment
from segue.system.services import Services


class CommandReviewer:
    """Runs a tool of the user's choice and reads its findings."""

    Options = CommandReviewOptions

    def __init__(self, options: CommandReviewOptions, services: Services, name: str = "command") -> None:
        self.name = name
        self.needs_commit = options.needs_commit
        self._options = options
        # Tools print the path they find themselves in, with links resolved.
        self._repo = services.repo.resolve()
        env = inside_environment(options.pass_env, options.env)
        self._tool = ReviewTool(self._repo, env, options.timeout, services.redactor, services.isolation)

    def take_calls(self) -> list[ReviewerCall]:
        """Return the programs that were called since this was asked last."""
        return self._tool.take_calls()

    def check(self) -> list[Problem]:
        """Report a problem if the program is not found."""
        return find_missing(self._options.argv[0], self._repo, self._tool.env, f"reviewers.{self.name}.argv")

    async def review(self, subject: ReviewSubject, again: bool) -> Review:  # noqa: ARG002 - it looks at all
        """Run the tool and read its findings."""
        said = await self._tool.run(fill_argv(self._options.argv, subject))
        failure = self._failure(said)
        if failure:
            return Review(failure=failure, output=said.tail)
        try:
            found = self._findings(said)
            if self._options.scope == "changed" and subject.base:
                found = await in_changed_files(self._repo, subject.base, found)
        except MalformedOutput as error:
            return Review(failure=f"the output of {self._program} cannot be read: {error}", output=said.tail)
        except SegueError as error:
            return Review(failure=error.message, output=said.tail)
        least = self._options.min_severity.rank
        found = tuple(one for one in found if one.severity.rank <= least)
        return Review(found, output=said.tail)

    async def finish(self, subject: ReviewSubject) -> str:  # noqa: ARG002 - as above
        """Do nothing: a plain tool keeps no session."""
        return ""

    @property
    def _program(self) -> str:
        return PurePath(self._options.argv[0]).name

    def _failure(self, said: ToolResult) -> str:
        known = {*self._options.ok_codes, *self._options.findings_codes}
        return said.why(self._program) if said.broken or said.exit_code not in known else ""

    def _findings(self, said: ToolResult) -> tuple[Finding, ...]:
        claims = said.exit_code not in self._options.ok_codes
        if self._options.format == "exit-code":
            return (exit_code_finding(self._program, said.exit_code, said.tail),) if claims else ()
        found = parse(self._options.format, said.out, self._repo)
        if claims and not found:
            raise MalformedOutput(f"exit code {said.exit_code} means findings, but the output contains none")
        return found


class KnownTool:
    """A tool that needs no options, because it is known by name; the user may change some."""

    Options = CommandReviewOptions

    def __init__(self, name: str) -> None:
        self.name = name
        self.defaults = PRESETS[name]

    def __call__(self, options: CommandReviewOptions, services: Services) -> CommandReviewer:
        """Build the reviewer that runs the tool."""
        return CommandReviewer(options, services, self.name)


RUFF = KnownTool("ruff")
SEMGREP = KnownTool("semgrep")
