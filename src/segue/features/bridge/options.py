"""The table `[bridge]`: what an agent's commands may do, and how much of it."""

from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from msgspec.structs import force_setattr

from segue.agents.cloud.repository import canonical_address
from segue.config.settings import Settings
from segue.domain.options import Amount, Count, OptionError, Options, Port, Seconds

LOCAL = ("127.0.0.1", "localhost", "::1")
HOST = "github.com"
"""The host of a pattern such as `owner/*` that names none."""


def pattern(text: str) -> str:
    """Normalize an entry of the allow-list: `https://host/owner/name`, `https://host/owner/*`, or an
    absolute folder; raises ValueError when it is none of these."""
    text = text.strip()
    if text.startswith(("/", "~", ".")) or Path(text).is_absolute():
        return str(_expand(Path(text)))
    if not text.endswith("/*"):
        return canonical_address(text)
    owner = text[:-2]
    if "/" not in owner:
        owner = f"{HOST}/{owner}"
    if "*" in owner:
        raise ValueError(f"{text!r}: a * may stand for the last part alone: owner/*")
    return f"{canonical_address(owner + '/x')[:-2]}/*"


def _expand(path: Path) -> Path:
    full = path.expanduser()
    if not full.is_absolute():
        raise ValueError(f"{path} is a relative path; write it from / or ~")
    return full


def _check_address(name: str, url: str) -> str:
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise OptionError(name, "must not contain a user or a password")
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOCAL):
        raise OptionError(name, "must begin with https:// (or http:// on this machine): it contains a secret")
    return url.rstrip("/")


class AllowedRepo(Options, frozen=True):
    """A repository that agents on this machine may work on, and the folder of its clone."""

    repo: str
    folder: Path

    def __post_init__(self) -> None:
        force_setattr(self, "repo", pattern(self.repo))
        force_setattr(self, "folder", _expand(self.folder))


class BridgeSettings(Options, frozen=True):
    """What an agent's commands may do, and how much of it."""

    allow_repos: tuple[str | AllowedRepo, ...] = ()
    """Where subagents may work: `github.com/me/app`, `me/*`, a folder, or `{ repo = "github.com/me/app",
    folder = "~/src/app" }` for agents on this machine."""
    subagent: str | None = None
    """The agent of subagents; that of the conversation if unset."""
    allow_agents: tuple[str, ...] = ()
    """More agents that a `SUBAGENT` line may name with `agent=`."""
    wait: bool = True
    """Report to the agent only when all of its subagents have finished."""
    prompt_text: Literal["raw", "rules"] = "rules"
    """What a subagent gets as `prompt.text`: the `prompt` of the line alone, or Segue's rules around it."""
    commands: Count = 20
    """Commands to run from one reply."""
    rounds: Count = 20
    """Replies of the agent per message of a person."""
    launches: Count = 50
    """Launches per conversation, replies and subagents together."""
    cost_usd: Amount | None = None
    """US dollars per conversation; needs agents that report cost."""
    concurrency: Count = 3
    """Subagents that work at the same time, over all conversations."""
    relay_url: str | None = None
    """The address of the relay: see `docs/guides/relay.md`."""
    relay_token_env: str = "SEGUE_RELAY_TOKEN"
    """The environment variable with the relay's token."""
    relay_token_file: Path | None = None
    """A file with the relay's token, instead of the variable."""
    relay_timeout: Seconds = 900
    """Seconds an action may take."""
    listen: str = "127.0.0.1"
    """The address `segue bridge serve` listens on."""
    port: Port = 8377
    """Its port; 0 picks a free one."""
    hosts: tuple[str, ...] = ()
    """More host names it answers to, such as that of a tunnel."""
    token_env: str = "SEGUE_BRIDGE_TOKEN"
    """The environment variable with the token of `bridge serve`."""
    webhook_secret_env: str = "CURSOR_WEBHOOK_SECRET"
    """The environment variable with the secret that signs Cursor's webhooks."""
    completion_url: str | None = None
    """Where to report the end of every subagent, in the form of Cursor's webhooks."""
    completion_secret_env: str = "SEGUE_COMPLETION_SECRET"
    """The environment variable with the secret that signs these reports."""

    def __post_init__(self) -> None:
        try:
            repos = tuple(pattern(entry) if isinstance(entry, str) else entry for entry in self.allow_repos)
        except ValueError as error:
            raise OptionError("allow_repos", str(error)) from None
        force_setattr(self, "allow_repos", repos)
        for name in ("relay_url", "completion_url"):
            if url := getattr(self, name):
                force_setattr(self, name, _check_address(name, url))


def bridge_settings(settings: Settings) -> BridgeSettings:
    """Return what an agent's commands may do."""
    return settings.part("bridge", BridgeSettings)
