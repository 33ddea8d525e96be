"""The options of the reviewers, and the known tools that need none."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta

from segue.domain.argv import fill
from segue.domain.finding import Severity
from segue.domain.options import Argv, Commands, OptionError, Options, Seconds, Text, read_options
from segue.reviewers.formats.read import Format
from segue.reviewers.tool import PLACEHOLDERS

_REPLACED = "Replaced in it: {base}, {head}, {repo}, {task}; a brace is {{ or }}."


def _check_placeholders(name: str, argv: Argv | None) -> None:
    try:
        for argument in argv or ():
            fill(argument, dict.fromkeys(PLACEHOLDERS, ""))
    except ValueError as error:
        raise OptionError(name, str(error)) from None


class StetOptions(Options, frozen=True):
    """The table `[reviewers.stet]`."""

    cmd: Annotated[Text, Meta(description="The program: a name on PATH, or a path.")] = "stet"
    timeout: Annotated[
        Seconds,
        Meta(description="Seconds one review may take. stet asks its model once per changed hunk."),
    ] = 1800
    finish: Annotated[
        Literal["task", "run", "never"],
        Meta(description="When to finish stet's review: after each task, at the end of the run, or never."),
    ] = "task"
    commands: Annotated[
        Commands | None,
        Meta(
            description="Run these instead of `stet start` and `stet run`: all of them when a review begins, "
            "the last one again after each address round. " + _REPLACED
        ),
    ] = None
    pass_env: Annotated[
        tuple[str, ...],
        Meta(description="Environment variables stet may see, besides STET_* and the harmless ones."),
    ] = ()
    env: Annotated[dict[str, str], Meta(description="Environment variables to set for stet.")] = {}

    def __post_init__(self) -> None:
        if self.commands is not None and not self.commands:
            raise OptionError("commands", "needs at least one command")
        for command in self.commands or ():
            _check_placeholders("commands", command)


class CommandReviewOptions(Options, frozen=True):
    """The table `[reviewers.command]`."""

    argv: Annotated[Argv, Meta(description="The program and its arguments. " + _REPLACED)]
    format: Annotated[
        Format, Meta(description="What it prints: sarif, ruff, semgrep, jsonlines, stet or exit-code.")
    ]
    again: Annotated[Argv | None, Meta(description="The command after an address round; argv if unset.")] = (
        None
    )
    finish: Annotated[
        Argv | None, Meta(description="The command to run when the review of a task has ended.")
    ] = None
    needs_commit: Annotated[bool, Meta(description="It sees commits only, so Segue must commit first.")] = (
        False
    )
    scope: Annotated[
        Literal["changed", "all"],
        Meta(description="`changed`: ignore findings in files the task has not touched. `all`: keep them."),
    ] = "changed"
    ok_codes: Annotated[tuple[int, ...], Meta(description="Exit codes that mean success.")] = (0,)
    findings_codes: Annotated[
        tuple[int, ...],
        Meta(description="Exit codes that mean success with findings. All others are failures."),
    ] = (1,)
    timeout: Annotated[Seconds, Meta(description="Seconds it may take.")] = 1800
    min_severity: Annotated[
        Severity,
        Meta(description="Ignore findings less severe than this: error, warning, info, nitpick."),
    ] = Severity.INFO
    pass_env: Annotated[tuple[str, ...], Meta(description="Environment variables the program may see.")] = ()
    env: Annotated[dict[str, str], Meta(description="Environment variables to set for the program.")] = {}

    def __post_init__(self) -> None:
        for name in ("argv", "again", "finish"):
            _check_placeholders(name, getattr(self, name))


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
"""Options of the command reviewer by the tool's name; `stet` here lacks what `StetReviewer` adds."""


def preset(name: str, changes: dict[str, Any] | None = None) -> CommandReviewOptions:
    """Return the options of a known tool, with the user's changes."""
    return read_options(CommandReviewOptions, {**PRESETS[name], **(changes or {})})
