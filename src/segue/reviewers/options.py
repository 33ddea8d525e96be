"""The settings of the reviewers, and the tools that need none because they are known by name."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from segue.domain.argv import fill, split
from segue.domain.finding import Severity
from segue.reviewers.formats.read import Format
from segue.reviewers.tool import PLACEHOLDERS

_REPLACED = "Replaced in it: {base}, {head}, {repo}, {task}; a brace is {{ or }}."


def _words(value: Any) -> Any:
    return split(value) if isinstance(value, str) else value


def _command(argv: list[str]) -> list[str]:
    if not argv or not argv[0]:
        raise ValueError("the first element names the program and cannot be empty")
    for argument in argv:
        if "\0" in argument:
            raise ValueError("an argument cannot hold a null character")
        fill(argument, dict.fromkeys(PLACEHOLDERS, ""))
    return argv


def _sequence(value: Any) -> Any:
    """One wrapper given as a string is a sequence of one command."""
    return [value] if isinstance(value, str) else value


def _some(commands: list[list[str]]) -> list[list[str]]:
    if not commands:
        raise ValueError("needs at least one command")
    return commands


Argv = Annotated[list[str], BeforeValidator(_words), AfterValidator(_command)]
"""A program and its arguments. A string is split as a shell would, but may not need one."""

Sequence = Annotated[list[Argv], BeforeValidator(_sequence), AfterValidator(_some)]
"""Commands that run one after the other."""


class StetOptions(BaseModel):
    """The table `[reviewers.stet]`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cmd: str = Field(default="stet", min_length=1, description="The program: a name on PATH, or a path.")
    timeout: float = Field(
        default=1800,
        gt=0,
        description="Seconds one review may take. stet asks its model once per changed hunk.",
    )
    finish: Literal["task", "run", "never"] = Field(
        default="task",
        description="When stet's review is finished: after each task, once at the end, or by you.",
    )
    commands: Sequence | None = Field(
        default=None,
        description="Run these instead of `stet start` and `stet run`: all of them when a review begins, "
        "the last one again after each address round. " + _REPLACED,
    )
    pass_env: list[str] = Field(
        default=[], description="Environment variables stet may see, beside STET_* and the harmless ones."
    )
    env: dict[str, str] = Field(default={}, description="Environment variables to set for stet.")


class CommandReviewOptions(BaseModel):
    """The table `[reviewers.command]`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    argv: Argv = Field(description="The program and its arguments. " + _REPLACED)
    again: Argv | None = Field(default=None, description="What runs after an address round; argv if unset.")
    finish: Argv | None = Field(default=None, description="What runs when the review of a task has ended.")
    format: Format = Field(description="What it prints: sarif, ruff, semgrep, jsonlines, stet or exit-code.")
    needs_commit: bool = Field(
        default=False, description="It sees commits only, so Segue must commit before it."
    )
    scope: Literal["changed", "all"] = Field(
        default="changed",
        description="`changed`: findings in files the task has not touched are left out. `all`: they count.",
    )
    ok_codes: list[int] = Field(default=[0], description="Exit codes that mean: it worked.")
    findings_codes: list[int] = Field(
        default=[1], description="Exit codes that mean: it worked, and found something. Others are failures."
    )
    timeout: float = Field(default=1800, gt=0, description="Seconds it may take.")
    min_severity: Severity = Field(
        default=Severity.INFO,
        description="Findings less severe than this are left out: error, warning, info, nitpick.",
    )
    pass_env: list[str] = Field(default=[], description="Environment variables the program may see.")
    env: dict[str, str] = Field(default={}, description="Environment variables to set for the program.")


PRESETS: dict[str, dict[str, Any]] = {
    "ruff": {
        # Reviewing changes nothing: no cache in the work tree, no fixes even if ruff's settings want them.
        "argv": ["ruff", "check", "--no-cache", "--no-fix", "--output-format", "json", "."],
        "format": "ruff",
    },
    "semgrep": {
        "argv": ["semgrep", "scan", "--config", ".semgrep.yml", "--json", "--quiet", "--metrics=off", "."],
        "format": "semgrep",
    },
    "stet": {
        "argv": ["stet", "start", "{base}", "--json"],
        "again": ["stet", "run", "--json"],
        "finish": ["stet", "finish"],
        "format": "stet",
        "needs_commit": True,
        "findings_codes": [],
    },
}
"""Options of the command reviewer by the tool's name; `stet` without what `StetReviewer` does for it."""


def preset(name: str, changes: dict[str, Any] | None = None) -> CommandReviewOptions:
    """The options of a known tool, changed where the user says so."""
    return CommandReviewOptions.model_validate({**PRESETS[name], **(changes or {})})
