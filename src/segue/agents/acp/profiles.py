"""What Segue knows about agents that speak the Agent Client Protocol: one profile each, no code.

A profile says how the program is started, what its modes are called, what it may do, and how its errors
look. `[acp.NAME]` in segue.toml adds another one; docs/agents.md tells how.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from segue.domain.errors import UsageError

Policy = Literal["all", "edits", "read"]
"""What is allowed when the agent asks: everything; reading and changing files; reading alone."""


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from None
    return text


def _inside(name: str) -> str:
    if not name or PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        raise ValueError("must be a path inside the agent's folder")
    return name


Pattern = Annotated[str, AfterValidator(_pattern)]
FileName = Annotated[str, AfterValidator(_inside)]


class ModeNames(BaseModel):
    """What the agent calls the modes; it cannot do those that are unset."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    plan: str | None = Field(default=None, description="The mode in which it plans and changes nothing.")
    edit: str | None = Field(
        default=None, description="The mode in which it works; unset: the one it starts in."
    )
    ask: str | None = Field(default=None, description="The mode in which it answers and changes nothing.")


class Permissions(BaseModel):
    """What the agent is allowed when it asks, per mode."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    plan: Policy = Field(default="read", description="In plan mode.")
    edit: Policy = Field(default="all", description="In edit mode.")
    ask: Policy = Field(default="read", description="In ask mode.")


class ModelChoice(BaseModel):
    """How the agent is told its model; one of these, or none if it cannot be told."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    args: list[str] = Field(default=[], description="Arguments, in which `{model}` is the model.")
    env: str | None = Field(default=None, description="A variable.")
    option: str | None = Field(default=None, description="An option of the session, such as `model`.")


class OwnFile(BaseModel):
    """A file that the agent is to find in the run's own folder."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: FileName = Field(description="Its name in `{folder}`.")
    text: str = Field(description="What is in it.")


class Profile(BaseModel):
    """The table `[acp.NAME]`: an agent that speaks the Agent Client Protocol on its stdin and stdout."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    argv: list[str] = Field(min_length=1, description="The program and its arguments.")
    title: str = Field(default="", description="What people call it.")
    also_called: list[str] = Field(default=[], description="Other names of the program.")
    env: dict[str, str] = Field(
        default={}, description="Variables to set; `{folder}` is a folder of the run's own. No secrets."
    )
    read_env: dict[str, str] = Field(
        default={}, description="Variables to set in plan and ask mode, instead of those in `env`."
    )
    own_env: dict[str, str] = Field(
        default={},
        description="Variables to set only if one of `login_env` is: a configuration folder of its own.",
    )
    files: list[OwnFile] = Field(default=[], description="Files written into `{folder}`.")
    pass_env: list[str] = Field(default=[], description="Variables of your environment that it may see.")
    login_env: list[str] = Field(default=[], description="Variables that hold a key; it may see them too.")
    login: str = Field(default="", description="How to log in, as a sentence.")
    auth_method: str | None = Field(
        default=None, description="The protocol's method of authentication, used if the agent demands one."
    )
    modes: ModeNames = Field(default=ModeNames(), description="What it calls the modes.")
    mode_option: str | None = Field(
        default=None,
        description="The option of the session that holds the mode, if `session/set_mode` does not.",
    )
    permissions: Permissions = Field(
        default=Permissions(),
        description="What it is allowed when it asks.",
    )
    model: ModelChoice = Field(default=ModelChoice(), description="How it is told its model.")
    error_text: list[Pattern] = Field(
        default=[], description="Last words that mean failure though it says it is done: regular expressions."
    )
    retry_text: list[Pattern] = Field(
        default=[],
        description="Lines on stderr by which it says that its service refused and it tries again: regular "
        "expressions, whose first group is the reason.",
    )
    answers: dict[str, dict[str, Any]] = Field(
        default={}, description="Requests of its own that it makes of its client, and what it is answered."
    )
    plan_from: str | None = Field(
        default=None, description="The request whose parameter `plan` holds the plan."
    )
    one_launch_a_minute: bool = Field(
        default=False,
        description="It loses a session that is gone on with in the minute of its last launch: Segue waits.",
    )
    version: Pattern | None = Field(
        default=None, description="All it says about its version fits this; unset: it is not asked."
    )
    install: str = Field(default="", description="The command that installs it.")
    reports_usage: bool = Field(default=False, description="It reports tokens with every turn.")
    reports_cost: bool = Field(default=False, description="It reports money, in dollars.")


def check_profile(name: str, table: Mapping[str, Any], where: str, taken: bool) -> None:
    """Say what is wrong with the table `[acp.NAME]` that stands in the file `where`."""
    if taken:
        raise UsageError(
            f"acp.{name} (from {where}) has the name of an agent that exists.",
            hint=f"Choose another name; options of {name} itself belong into [agents.{name}].",
        )
    try:
        Profile.model_validate(table)
    except ValidationError as error:
        first = error.errors()[0]
        path = ".".join(["acp", name, *(str(part) for part in first["loc"])])
        raise UsageError(f"{path}: {first['msg']} (from {where})", hint="See docs/agents.md") from None


_NUMBER = r"v?\d+\.\d+\.\d+\S*"
_QUIET_GEMINI = json.dumps(
    {
        "general": {
            "enableAutoUpdate": False,
            "enableAutoUpdateNotification": False,
            # When it tidies up it loses sessions that were gone on with once.
            "sessionRetention": {"enabled": False},
            # Ten, its own, take minutes in which it does not say a word; Segue tries again too.
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
# OpenCode asks nobody unless it is told to, not even in plan mode; this counts more than its configuration.
# What it is denied by us ends its turn, so in plan mode it is denied by itself: then it goes on without.
_OPENCODE_TOOLS = ("edit", "bash", "webfetch", "websearch", "external_directory")
_COPILOT_MODES = "https://agentclientprotocol.com/protocol/session-modes#"

GEMINI = Profile(
    title="Gemini CLI",
    argv=["gemini", "--acp", "--skip-trust"],
    env={
        # The file is the one of the run's own home, and without such a home counts more than the user's.
        # Without relaunch there is one process less.
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
    # The file of a session is named after the minute; what has the same name is overwritten.
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
    # It ends its turn as if all were well and says only in words that its service has refused.
    error_text=[r"(?:Error|Execution failed|Info: Request failed)\b.*"],
    version=rf"(?s)(?:GitHub Copilot CLI )?{_NUMBER}.*",
    install="npm install -g @github/copilot",
    reports_usage=True,
)

OPENCODE = Profile(
    title="OpenCode",
    # Only its log tells that a service refuses: it tries again for ever, without a word in the conversation.
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
    # Not the requests for a title, which are `small`.
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
    # Its own default, `auto`, asks a model about every action; we answer for less.
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
    # It has no mode for planning: in this one it asks before every tool.
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
        # Accepting a plan would have it built; the request itself holds the plan.
        "cursor/create_plan": {"outcome": {"outcome": "cancelled"}},
        "cursor/ask_question": {"outcome": {"outcome": "skipped", "reason": "Nobody is there to answer."}},
    },
    plan_from="cursor/create_plan",
    version=r"\d{4}\.\d\d\.\d\d-[0-9a-f]+",
    install="curl https://cursor.com/install -fsS | bash",
)
