"""Agents that speak the Agent Client Protocol: one profile each, no code.

A profile says how the program is started, what its modes are called, what it may do, and what its errors
look like. `[acp.NAME]` in segue.toml adds another one; see docs/agents.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
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
    also_called: list[str] = []
    """Other names of the program."""
    env: dict[str, str] = {}
    """Variables to set; `{folder}` is a folder that belongs to the run. No secrets."""
    read_env: dict[str, str] = {}
    """Variables to set in plan and ask mode, instead of those in `env`."""
    own_env: dict[str, str] = {}
    """Variables to set only if one of `login_env` is set, such as a configuration folder."""
    files: list[OwnFile] = []
    """Files to write into `{folder}`."""
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
    answers: dict[str, dict[str, Any]] = {}
    """Requests outside of the protocol that it sends, and the answers to them."""
    plan_from: str | None = None
    """The request whose parameter `plan` is the plan."""
    one_launch_a_minute: bool = False
    """Wait for the next minute before a session is continued, else it is lost."""
    version: str | None = None
    """A regular expression for its whole answer to `--version`; unset: it is not asked."""
    install: str = ""
    """The command that installs it."""
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
        raise UsageError(f"acp.{name}.{error} (from {where})", hint="See docs/agents.md") from None


def _check_pattern(name: str, text: str) -> None:
    try:
        re.compile(text)
    except re.error as error:
        raise OptionError(name, f"is not a regular expression: {error}") from None


_NUMBER = r"v?\d+\.\d+\.\d+\S*"
_QUIET_GEMINI = json.dumps(
    {
        "general": {
            "enableAutoUpdate": False,
            "enableAutoUpdateNotification": False,
            # Its clean-up deletes sessions that were continued once.
            "sessionRetention": {"enabled": False},
            # Its default, ten, means minutes of silence; Segue retries too.
            "maxAttempts": 3,
        },
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
    }
)
_QUIET_QWEN = json.dumps(
    {
        "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
    }
)
# OpenCode asks for permission only if told to, even in plan mode; this overrides its configuration. A tool
# that we deny ends its turn, so in plan mode it denies the tool itself and then continues.
_OPENCODE_TOOLS = ("edit", "bash", "webfetch", "websearch", "external_directory")
_COPILOT_MODES = "https://agentclientprotocol.com/protocol/session-modes#"

GEMINI = Profile(
    title="Gemini CLI",
    argv=["gemini", "--acp", "--skip-trust"],
    env={
        # This file is in the run's own home; without such a home it overrides the user's settings.
        # Without relaunch there is one process fewer.
        "GEMINI_CLI_SYSTEM_SETTINGS_PATH": "{folder}/.gemini/settings.json",
        "GEMINI_CLI_NO_RELAUNCH": "true",
        "GEMINI_TELEMETRY_ENABLED": "false",
    },
    own_env={"GEMINI_CLI_HOME": "{folder}"},
    files=[OwnFile(path=".gemini/settings.json", text=_QUIET_GEMINI)],
    pass_env=[
        *("GOOGLE_GEMINI_BASE_URL", "GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION"),
        *("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_APPLICATION_CREDENTIALS", "GEMINI_CLI_HOME"),
    ],
    login_env=["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    login="Run `gemini` once and log in, or set GEMINI_API_KEY.",
    auth_method="gemini-api-key",
    modes=ModeNames(plan="plan", edit="default", ask="plan"),
    model=ModelChoice(args=["-m", "{model}"]),
    # A session's file is named after the minute, so a second one in that minute overwrites the first.
    one_launch_a_minute=True,
    version=_NUMBER,
    install="npm install -g @google/gemini-cli",
    reports_usage=True,
)

COPILOT = Profile(
    title="GitHub Copilot CLI",
    argv=["copilot", "--acp", "--disable-builtin-mcps", "--disable-client-telemetry", "--no-auto-update"],
    env={"COPILOT_AUTO_UPDATE": "false"},
    own_env={"COPILOT_HOME": "{folder}"},
    pass_env=[
        *("COPILOT_HOME", "COPILOT_OFFLINE", "COPILOT_MODEL", "COPILOT_PROVIDER_BASE_URL"),
        *("COPILOT_PROVIDER_TYPE", "COPILOT_PROVIDER_WIRE_API", "GH_HOST", "COPILOT_GH_HOST"),
    ],
    login_env=[
        *("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"),
        *("COPILOT_PROVIDER_API_KEY", "COPILOT_PROVIDER_BEARER_TOKEN"),
    ],
    login="Run `copilot login`, or set COPILOT_GITHUB_TOKEN.",
    modes=ModeNames(plan=f"{_COPILOT_MODES}plan", edit=f"{_COPILOT_MODES}agent", ask=f"{_COPILOT_MODES}plan"),
    model=ModelChoice(args=["--model", "{model}"]),
    # It ends its turn well and says only in its message that its service refused.
    error_text=[r"(?:Error|Execution failed|Info: Request failed)\b.*"],
    version=rf"(?s)(?:GitHub Copilot CLI )?{_NUMBER}.*",
    install="npm install -g @github/copilot",
    reports_usage=True,
)

OPENCODE = Profile(
    title="OpenCode",
    # Only its log shows that a service refuses: it retries for ever and says nothing in the conversation.
    argv=["opencode", "acp", "--print-logs", "--log-level", "ERROR"],
    env={
        "OPENCODE_PERMISSION": json.dumps(dict.fromkeys(_OPENCODE_TOOLS, "ask")),
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_SHARE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    },
    read_env={"OPENCODE_PERMISSION": json.dumps(dict.fromkeys(_OPENCODE_TOOLS, "deny"))},
    pass_env=[
        "OPENCODE_CONFIG",
        "OPENCODE_CONFIG_CONTENT",
        "OPENCODE_CONFIG_DIR",
        "OPENCODE_DISABLE_MODELS_FETCH",
    ],
    login_env=["OPENCODE_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENROUTER_API_KEY"],
    login="Run `opencode auth login`, or set the key of the provider you use.",
    modes=ModeNames(plan="plan", edit="build", ask="plan"),
    mode_option="mode",
    model=ModelChoice(option="model"),
    # Requests for a title are `small`; they do not matter.
    retry_text=[r'.*message="stream error".* small=false .*error="(?:AI_\w+: )?(.*)"'],
    version=_NUMBER,
    install="npm install -g opencode-ai",
)

QWEN = Profile(
    title="Qwen Code",
    argv=["qwen", "--acp"],
    env={"QWEN_CODE_SYSTEM_SETTINGS_PATH": "{folder}/settings.json", "QWEN_CODE_NO_RELAUNCH": "true"},
    own_env={"QWEN_HOME": "{folder}"},
    files=[OwnFile(path="settings.json", text=_QUIET_QWEN)],
    pass_env=["OPENAI_BASE_URL", "OPENAI_MODEL", "QWEN_HOME"],
    login_env=["OPENAI_API_KEY", "DASHSCOPE_API_KEY", "BAILIAN_CODING_PLAN_API_KEY"],
    login="Run `qwen` once and log in, or set OPENAI_API_KEY (and OPENAI_BASE_URL).",
    auth_method="openai",
    # Its default, `auto`, asks a model about every action; our answers cost nothing.
    modes=ModeNames(plan="plan", edit="default", ask="plan"),
    model=ModelChoice(args=["-m", "{model}"]),
    version=_NUMBER,
    install="npm install -g @qwen-code/qwen-code",
)

VIBE = Profile(
    title="Mistral Vibe",
    argv=["vibe-acp"],
    env={"VIBE_ENABLE_TELEMETRY": "false", "VIBE_ENABLE_UPDATE_CHECKS": "false"},
    pass_env=["VIBE_HOME"],
    login_env=["MISTRAL_API_KEY"],
    login="Run `vibe --setup`, or set MISTRAL_API_KEY.",
    # It has no plan mode: in this one it asks before every tool.
    modes=ModeNames(plan="ask", edit="ask", ask="ask"),
    model=ModelChoice(option="model"),
    version=rf"(?:\S+ )?{_NUMBER}",
    install="pip install mistral-vibe",
    reports_usage=True,
)

CURSOR_ACP = Profile(
    title="Cursor",
    argv=["cursor-agent", "acp"],
    also_called=["agent"],
    env={"NO_OPEN_BROWSER": "1"},
    pass_env=["CURSOR_CONFIG_DIR", "AGENT_CLI_CREDENTIAL_STORE"],
    login_env=["CURSOR_API_KEY"],
    login="Run `cursor-agent login`, or set CURSOR_API_KEY.",
    auth_method="cursor_login",
    modes=ModeNames(plan="plan", edit="agent", ask="ask"),
    model=ModelChoice(option="model"),
    answers={
        # Accepting the plan would start the work; the request itself contains the plan.
        "cursor/create_plan": {"outcome": {"outcome": "cancelled"}},
        "cursor/ask_question": {"outcome": {"outcome": "skipped", "reason": "Nobody is there to answer."}},
    },
    plan_from="cursor/create_plan",
    version=r"\d{4}\.\d\d\.\d\d-[0-9a-f]+",
    install="curl https://cursor.com/install -fsS | bash",
)
