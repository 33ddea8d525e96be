"""The options of the reviewers, and the known tools that need none."""

from __future__ import annotations

from typing import Any, Literal

from segue.domain.options import Argv, OptionError, Options, Seconds, fill_placeholders
from segue.domain.verdict import Severity
from segue.reviewers.formats import Format
from segue.reviewers.tool import PLACEHOLDERS


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
    ok_codes: tuple[int, ...] = (0,)
    """Exit codes that mean success."""
    findings_codes: tuple[int, ...] = (1,)
    """Exit codes that mean success with findings. All others are failures."""
    timeout: Seconds = 1800
    """Seconds it may take."""
    min_severity: Severity = Severity.INFO
    """Ignore findings less severe than this: error, warning, info, nitpick."""
    pass_env: tuple[str, ...] = ()
    """Environment variables the program may see."""
    env: dict[str, str] = {}
    """Environment variables to set for the program."""

    def __post_init__(self) -> None:
        check_placeholders("argv", self.argv)


PRESETS: dict[str, dict[str, Any]] = {
    "ruff": {
        # Reviewing changes nothing: no cache in the work tree, no fixes even if ruff's settings want them.
        "argv": ["ruff", "check", "--no-cache", "--no-fix", "--output-format", "sarif", "."],
        "format": "sarif",
    },
    "semgrep": {
        "argv": ["semgrep", "scan", "--config", ".semgrep.yml", "--sarif", "--quiet", "--metrics=off", "."],
        "format": "sarif",
    },
}
"""Options of the command reviewer by the tool's name."""
