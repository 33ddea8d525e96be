"""Runs a review tool, returns its output without secrets, and filters findings by what has changed."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from segue.domain.errors import ToolMissing, WorkspaceError
from segue.domain.options import fill_placeholders
from segue.domain.text import cut_tail
from segue.domain.verdict import Finding, ReviewerCall
from segue.ports import Problem, ReviewSubject
from segue.system.git.folders import find_place
from segue.system.git.outside import PLAIN_DIFF, run_outside
from segue.system.isolation.isolate import Isolation, capture_inside
from segue.system.programs import find_inside
from segue.system.redact import Redactor

PLACEHOLDERS = ("base", "head", "repo", "task")
_TAIL_CHARS = 4000


class ToolResult(Struct, frozen=True):
    """How a tool ended and what it printed; `broken` says why it did not finish on its own."""

    exit_code: int
    out: str = ""
    err: str = ""
    broken: str = ""

    @property
    def tail(self) -> str:
        """The end of the output, errors last."""
        return cut_tail("\n".join(part for part in (self.out.strip(), self.err.strip()) if part), _TAIL_CHARS)

    def why(self, program: str) -> str:
        """Return why it failed, in its own words if there are any."""
        words = cut_tail(self.err.strip() or self.out.strip(), _TAIL_CHARS)
        return self.broken or f"{program} failed with exit code {self.exit_code}: {words or 'no output'}"


class ReviewTool(Struct, frozen=True):
    """Runs the programs of a reviewer: the place, environment and time limit."""

    repo: Path
    env: Mapping[str, str]
    timeout: float
    redactor: Redactor
    isolation: Isolation = field(default_factory=Isolation)
    calls: list[ReviewerCall] = field(default_factory=list)

    def take_calls(self) -> list[ReviewerCall]:
        """Return what was called since this was asked last."""
        taken, self.calls[:] = list(self.calls), []
        return taken

    async def run(self, argv: Sequence[str]) -> ToolResult:
        """Run a program in the repository; its whole group is killed when it takes too long."""
        began = time.monotonic()
        said = await self._run(argv)
        seconds = round(time.monotonic() - began, 3)
        out, err = (cut_tail(text.strip(), _TAIL_CHARS) for text in (said.out, said.err))
        command = self.redactor.text(shlex.join(argv))
        self.calls.append(ReviewerCall(command, said.exit_code, seconds, out, err, said.broken))
        return said

    async def _run(self, argv: Sequence[str]) -> ToolResult:
        program = locate(argv[0], self.repo)
        try:
            words = [program, *argv[1:]]
            done = await capture_inside(
                self.isolation, words, self.repo, self.env, self.timeout, network=True
            )
        except TimeoutError:
            return ToolResult(-1, broken=f"{argv[0]} did not finish within {self.timeout:g} s and was killed")
        except ToolMissing as error:
            return ToolResult(-1, broken=f"{error.message}. {error.hint}")
        except OSError as error:
            return ToolResult(-1, broken=f"{argv[0]} cannot be started: {error.strerror or error}")
        return ToolResult(done.exit_code, self._text(done.out), self._text(done.err))

    def _text(self, data: bytes) -> str:
        return self.redactor.text(data.decode("utf-8", "replace")).replace("\0", "\ufffd")


def fill_argv(argv: Sequence[str], subject: ReviewSubject) -> list[str]:
    """Return the command with its placeholders replaced."""
    values = {
        "base": subject.base,
        "head": subject.head,
        "repo": str(subject.repo),
        "task": subject.task,
    }
    return [fill_placeholders(argument, values) for argument in argv]


def locate(program: str, repo: Path) -> str:
    """Return the program; one with a folder in its name is relative to the repository's root."""
    return str(repo / program) if os.sep in program or "/" in program else program


def find_missing(program: str, repo: Path, env: Mapping[str, str], setting: str) -> list[Problem]:
    """Return a problem if the program is not found."""
    if "{" in program or find_inside(locate(program, repo), env.get("PATH")):
        return []
    fix = f"Install it, or set {setting} to the program's full path."
    return [Problem(f"{program} was not found.", fix, ToolMissing.exit_code)]


_HUNK = re.compile(rb"^@@ -\d+(?:,\d+)? \+(\d+)(?:,(\d+))? @@", re.MULTILINE)


async def in_changed_files(repo: Path, base: str, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings in files changed or added since the base, committed or not, or in no file."""
    names = await _git(repo, "diff", "--name-only", "-z", *PLAIN_DIFF, base, "--")
    names += await _git(repo, "ls-files", "--others", "--exclude-standard", "-z")
    changed = {name.decode("utf-8", "replace") for name in names.split(b"\0") if name}
    return tuple(finding for finding in findings if not finding.file or finding.file in changed)


async def in_changed_hunks(repo: Path, base: str, findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings on or near lines that the commits since the base have changed."""
    hunks: dict[str, list[range]] = {}
    kept: list[Finding] = []
    for finding in findings:
        if finding.file not in hunks:
            hunks[finding.file] = await _hunks(repo, base, finding.file)
        line = finding.line
        if not finding.file or line is None or any(line in hunk for hunk in hunks[finding.file]):
            kept.append(finding)
    return tuple(kept)


async def _hunks(repo: Path, base: str, file: str) -> list[range]:
    if not file or file.startswith(("/", "../")):
        return []
    options = ("--unified=3", "--no-color", "--no-renames", *PLAIN_DIFF)
    diff = await _git(repo, "--literal-pathspecs", "diff", *options, base, "HEAD", "--", file)
    found = ((int(match[1]), int(match[2] or 1)) for match in _HUNK.finditer(diff))
    return [range(start, start + count) for start, count in found]


async def _git(repo: Path, *arguments: str) -> bytes:
    place = find_place(repo)
    if place is None:
        raise WorkspaceError(f"git cannot tell what has changed: {repo} is not in a git repository")
    done = await run_outside(place, *arguments)
    if done.exit_code != 0:
        said = done.err.decode("utf-8", "replace").strip()
        raise WorkspaceError(f"git cannot tell what has changed: {said or done.exit_code}")
    return done.out
