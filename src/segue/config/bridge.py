"""The table `[bridge]`: what an agent's commands may do, and how much of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from segue.domain.repository import canonical

LOCAL = ("127.0.0.1", "localhost", "::1")
HOST = "github.com"
"""Where a pattern such as `owner/*` is looked for when it names no host."""


def pattern(text: str) -> str:
    """An entry of the allow-list in its one spelling: `https://host/owner/name`, `https://host/owner/*`,
    or an absolute folder; ValueError when it is none of these."""
    text = text.strip()
    if text.startswith(("/", "~", ".")) or Path(text).is_absolute():
        return str(_folder(Path(text)))
    if not text.endswith("/*"):
        return canonical(text)
    owner = text[:-2]
    if "/" not in owner:
        owner = f"{HOST}/{owner}"
    if "*" in owner:
        raise ValueError(f"{text!r}: a * may stand for the last part alone: owner/*")
    return f"{canonical(owner + '/x')[:-2]}/*"


def _folder(path: Path) -> Path:
    full = path.expanduser()
    if not full.is_absolute():
        raise ValueError(f"{path} is a relative path; write it from / or ~")
    return full


def _url(url: str) -> str:
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise ValueError("must not hold a user or a password")
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOCAL):
        raise ValueError("must begin with https:// (or http:// on this machine): a secret travels with it")
    return url.rstrip("/")


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"there is no time zone {name!r}; write one such as Europe/Berlin") from None
    return name


Pattern = Annotated[str, AfterValidator(pattern)]
Url = Annotated[str, AfterValidator(_url)]


class AllowedRepo(BaseModel):
    """A repository that agents on this machine may work on, and where its clone lies."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    repo: Pattern
    folder: Annotated[Path, AfterValidator(_folder)]


class BridgeSettings(BaseModel):
    """What an agent's commands may do, and how much of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    allow_repos: tuple[Pattern | AllowedRepo, ...] = Field(
        (),
        description="Where subagents may work: `github.com/me/app`, `me/*`, a folder, or "
        '`{ repo = "github.com/me/app", folder = "~/src/app" }` for agents on this machine.',
    )
    subagent: str | None = Field(
        None, description="The agent that subagents are launched with; that of the conversation if unset."
    )
    allow_agents: tuple[str, ...] = Field(
        (), description="Further agents that a `SUBAGENT` line may name with `agent=`."
    )
    wait: bool = Field(True, description="Tell the agent about its subagents only when all have ended.")
    reads: Literal["last", "turn"] = Field(
        "last", description="Look for commands in the agent's last message, or in all of its turn."
    )
    in_fences: bool = Field(False, description="Commands inside code fences count too.")
    mode: Literal["edit", "plan", "ask"] = Field(
        "edit", description="What the agent that holds the conversation may do in its own repository."
    )
    commands: int = Field(20, ge=1, description="Commands of one reply that are carried out.")
    rounds: int = Field(20, ge=1, description="Replies of the agent per message of a person.")
    launches: int = Field(50, ge=1, description="Launches per conversation, replies and subagents together.")
    cost_usd: float | None = Field(
        None, gt=0, description="US dollars per conversation; needs agents that report cost."
    )
    concurrency: int = Field(3, ge=1, description="Subagents at work at once, over all conversations.")
    time_zone: Annotated[str, AfterValidator(_zone)] = Field(
        "UTC", description="The zone of times such as `tomorrow 9:00` that name none."
    )
    relay_url: Url | None = Field(None, description="Where the relay listens: see docs/relay.md.")
    relay_token_env: str = Field(
        "SEGUE_RELAY_TOKEN", description="The environment variable that holds the relay's token."
    )
    relay_token_file: Path | None = Field(None, description="The file that holds the relay's token instead.")
    relay_timeout: float = Field(900, gt=0, description="Seconds an action may take.")
    extensions: tuple[str, ...] = Field(
        (), description="Further commands that are carried out: see docs/bridge.md."
    )
    listen: str = Field("127.0.0.1", description="The address `segue bridge serve` listens on.")
    port: int = Field(8377, ge=0, le=65535, description="Its port; 0 takes a free one.")
    hosts: tuple[str, ...] = Field(
        (), description="Further names it may be called by, such as that of a tunnel."
    )
    token_env: str = Field(
        "SEGUE_BRIDGE_TOKEN", description="The environment variable that holds the token of `bridge serve`."
    )
    webhook_secret_env: str = Field(
        "CURSOR_WEBHOOK_SECRET",
        description="The environment variable that holds the secret Cursor's webhooks are signed with.",
    )
    completion_url: Url | None = Field(
        None, description="Where the end of every subagent is told, in the form of Cursor's webhooks."
    )
    completion_secret_env: str = Field(
        "SEGUE_COMPLETION_SECRET", description="The environment variable with the secret that signs these."
    )
