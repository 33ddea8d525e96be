"""Run a review tool and return its output without secrets."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct, field

from segue.domain.errors import ToolMissing
from segue.domain.options import fill_placeholders
from segue.domain.text import cut_tail
from segue.domain.verdict import ReviewerCall
from segue.ports import Problem, ReviewSubject
from segue.system.programs import find_inside
from segue.system.redact import Redactor
from segue.system.sandbox.isolation import Isolation, capture_inside

PLACEHOLDERS = ("base", "head", "repo", "task")
_TAIL = 4000


class ToolResult(Struct, frozen=True):
    """How a tool ended and what it printed; `broken` says why it did not finish on its own."""

    exit_code: int
    out: str = ""
    err: str = ""
    broken: str = ""

    @property
    def tail(self) -> str:
        """The end of the output, errors last."""
        return cut_tail("\n".join(part for part in (self.out.strip(), self.err.strip()) if part), _TAIL)

    def explain(self, program: str) -> str:
        """Return why it failed, in its own words if there are any."""
        words = cut_tail(self.err.strip() or self.out.strip(), _TAIL)
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
        result = await self._run(argv)
        seconds = round(time.monotonic() - began, 3)
        out, err = (cut_tail(text.strip(), _TAIL) for text in (result.out, result.err))
        command = self.redactor.text(shlex.join(argv))
        self.calls.append(ReviewerCall(command, result.exit_code, seconds, out, err, result.broken))
        return result

    async def _run(self, argv: Sequence[str]) -> ToolResult:
        words = [locate(argv[0], self.repo), *argv[1:]]
        try:
            done = await capture_inside(
                self.isolation, words, self.repo, self.env, self.timeout, network=True
            )
        except TimeoutError:
            return ToolResult(-1, broken=f"{argv[0]} did not finish within {self.timeout:g} s and was killed")
        except ToolMissing as error:
            return ToolResult(-1, broken=f"{error.message}. {error.hint}")
        except OSError as error:
            return ToolResult(-1, broken=f"{argv[0]} cannot be started: {error.strerror or error}")
        out, err = (self.redactor.text(data.decode("utf-8", "replace")) for data in (done.out, done.err))
        return ToolResult(done.exit_code, out.replace("\0", "\ufffd"), err.replace("\0", "\ufffd"))


def fill_argv(argv: Sequence[str], subject: ReviewSubject) -> list[str]:
    """Return the command with its placeholders replaced."""
    values = dict(
        zip(PLACEHOLDERS, (subject.base, subject.head, str(subject.repo), subject.task), strict=True)
    )
    return [fill_placeholders(argument, values) for argument in argv]


def locate(program: str, repo: Path) -> str:
    """Return the program; one with a folder in its name is relative to the repository's root."""
    return str(repo / program) if os.sep in program or "/" in program else program


def find_missing(program: str, tool: ReviewTool, setting: str) -> list[Problem]:
    """Return a problem if the program is not found."""
    if "{" in program or find_inside(locate(program, tool.repo), tool.env.get("PATH")):
        return []
    fix = f"Install it, or set {setting} to the program's full path."
    return [Problem(f"{program} was not found.", fix, ToolMissing.exit_code)]
