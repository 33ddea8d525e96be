"""Agents that speak the Agent Client Protocol: one profile each, no code.

A profile says how the program is started, what its modes are called, what it may do, and what its errors
look like. `[acp.NAME]` in segue.toml adds another one; see `docs/guides/agents.md`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from msgspec import Meta

from segue.domain.errors import UsageError
from segue.domain.options import OptionError, Options, read_options

ToolPolicy = Literal["all", "edits", "read"]
"""What is allowed when the agent asks: everything; reading and changing files; only reading."""


class ModeNames(Options, frozen=True):
    """Names of the modes; the agent does not have those that are unset."""

    plan: str | None = None
    """The mode in which it plans and changes nothing."""
    edit: str | None = None
    """The mode in which it works; unset: the one it starts in."""
    ask: str | None = None
    """The mode in which it answers and changes nothing."""


class Permissions(Options, frozen=True):
    """What is allowed in each mode when the agent asks."""

    plan: ToolPolicy = "read"
    """In plan mode."""
    edit: ToolPolicy = "all"
    """In edit mode."""
    ask: ToolPolicy = "read"
    """In ask mode."""


class ModelChoice(Options, frozen=True):
    """How the model is chosen: one of these, or none if the agent has no choice."""

    args: list[str] = []
    """Arguments; `{model}` is replaced."""
    env: str | None = None
    """An environment variable."""
    option: str | None = None
    """A session option, such as `model`."""


class OwnFile(Options, frozen=True):
    """A file to write into the run's own folder before the agent starts."""

    path: str
    """Its path inside `{folder}`."""
    text: str
    """Its content."""

    def __post_init__(self) -> None:
        path = PurePosixPath(self.path)
        if not self.path or path.is_absolute() or ".." in path.parts:
            raise OptionError("path", "must be a path inside the agent's folder")


class Profile(Options, frozen=True):
    """The table `[acp.NAME]`: an agent that speaks the Agent Client Protocol on its stdin and stdout."""

    argv: Annotated[list[str], Meta(min_length=1)]
    """The program and its arguments."""
    title: str = ""
    """What people call it."""
    env: dict[str, str] = {}
    """Variables to set; `{folder}` is a folder that belongs to the run. No secrets."""
    read_env: dict[str, str] = {}
    """Variables to set in plan and ask mode, instead of those in `env`."""
    own_env: dict[str, str] = {}
    """Variables to set only if one of `login_env` is set, such as a configuration folder."""
    files: list[OwnFile] = []
    """Files to write into `{folder}`."""
    home: list[str] = []
    """Places in the user's home that it may change in the sandbox: its configuration and its login."""
    pass_env: list[str] = []
    """Environment variables that it may see."""
    login_env: list[str] = []
    """Environment variables with a key; it may see them too."""
    login: str = ""
    """How to log in, as a sentence."""
    auth_method: str | None = None
    """The authentication method of the protocol, used if the agent asks for one."""
    modes: ModeNames = ModeNames()
    mode_option: str | None = None
    """The session option that sets the mode, if `session/set_mode` does not."""
    permissions: Permissions = Permissions()
    model: ModelChoice = ModelChoice()
    error_text: list[str] = []
    """Last messages that mean failure although the turn ended well: regular expressions."""
    retry_text: list[str] = []
    """Lines on stderr that mean that it retries because its service refused: regular expressions whose first
    group is the reason."""
    one_launch_a_minute: bool = False
    """Wait for the next minute before a session is continued, else it is lost."""
    version: str | None = None
    """A regular expression for its whole answer to `--version`; unset: it is not asked."""
    install: str = ""
    """The command that installs it."""
    untold: str = ""
    """What it does not tell, such as `when its model refuses`; `segue doctor` says so."""
    reports_usage: bool = False
    """It reports tokens with every turn."""
    reports_cost: bool = False
    """It reports costs, in dollars."""

    def __post_init__(self) -> None:
        patterns = {
            "error_text": self.error_text,
            "retry_text": self.retry_text,
            "version": [self.version or ""],
        }
        for name, texts in patterns.items():
            for text in texts:
                _check_pattern(name, text)


def check_profile(name: str, table: Mapping[str, Any], where: str, taken: bool) -> None:
    """Raise UsageError if the table `[acp.NAME]` of the file `where` is wrong."""
    if taken:
        raise UsageError(
            f"acp.{name} (from {where}) has the name of an agent that exists.",
            hint=f"Choose another name; options of {name} itself belong in [agents.{name}].",
        )
    try:
        read_options(Profile, table)
    except OptionError as error:
        raise UsageError(f"acp.{name}.{error} (from {where})", hint="See docs/guides/agents.md") from None


def _check_pattern(name: str, text: str) -> None:
    try:
        re.compile(text)
    except re.error as error:
        raise OptionError(name, f"is not a regular expression: {error}") from None


@cache
def load_profiles() -> Mapping[str, Profile]:
    """Return the agents that Segue knows by name, from `profiles.toml`."""
    tables = tomllib.loads(Path(__file__).with_name("profiles.toml").read_text("utf-8"))
    return {name: read_options(Profile, table) for name, table in tables.items()}
