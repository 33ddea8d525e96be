"""The table `[bridge]`: what an agent's commands may do, and how much of it."""

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from msgspec import Meta
from msgspec.structs import force_setattr

from segue.domain.options import Amount, Count, OptionError, Options, Port, Seconds
from segue.domain.repository import canonical

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
        return canonical(text)
    owner = text[:-2]
    if "/" not in owner:
        owner = f"{HOST}/{owner}"
    if "*" in owner:
        raise ValueError(f"{text!r}: a * may stand for the last part alone: owner/*")
    return f"{canonical(owner + '/x')[:-2]}/*"


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
        raise OptionError(name, "must begin with https:// (or http:// on this machine): it carries a secret")
    return url.rstrip("/")


def _check_zone(name: str) -> None:
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        message = f"there is no time zone {name!r}; write one such as Europe/Berlin"
        raise OptionError("time_zone", message) from None


class AllowedRepo(Options, frozen=True):
    """A repository that agents on this machine may work on, and the folder of its clone."""

    repo: str
    folder: Path

    def __post_init__(self) -> None:
        force_setattr(self, "repo", pattern(self.repo))
        force_setattr(self, "folder", _expand(self.folder))


class BridgeSettings(Options, frozen=True):
    """What an agent's commands may do, and how much of it."""

    allow_repos: Annotated[
        tuple[str | AllowedRepo, ...],
        Meta(
            description="Where subagents may work: `github.com/me/app`, `me/*`, a folder, or "
            '`{ repo = "github.com/me/app", folder = "~/src/app" }` for agents on this machine.'
        ),
    ] = ()
    subagent: Annotated[
        str | None, Meta(description="The agent of subagents; that of the conversation if unset.")
    ] = None
    allow_agents: Annotated[
        tuple[str, ...], Meta(description="More agents that a `SUBAGENT` line may name with `agent=`.")
    ] = ()
    wait: Annotated[
        bool, Meta(description="Report to the agent only when all of its subagents have finished.")
    ] = True
    reads: Annotated[
        Literal["last", "turn"],
        Meta(description="Look for commands in the agent's last message, or in its whole turn."),
    ] = "last"
    in_fences: Annotated[bool, Meta(description="Run commands inside code fences too.")] = False
    mode: Annotated[
        Literal["edit", "plan", "ask"],
        Meta(description="What the agent of the conversation may do in its own repository."),
    ] = "edit"
    commands: Annotated[Count, Meta(description="Commands to run from one reply.")] = 20
    rounds: Annotated[Count, Meta(description="Replies of the agent per message of a person.")] = 20
    launches: Annotated[
        Count, Meta(description="Launches per conversation, replies and subagents together.")
    ] = 50
    cost_usd: Annotated[
        Amount | None, Meta(description="US dollars per conversation; needs agents that report cost.")
    ] = None
    concurrency: Annotated[
        Count, Meta(description="Subagents that work at the same time, over all conversations.")
    ] = 3
    time_zone: Annotated[
        str, Meta(description="The time zone of times such as `tomorrow 9:00` that name none.")
    ] = "UTC"
    relay_url: Annotated[str | None, Meta(description="The address of the relay: see docs/relay.md.")] = None
    relay_token_env: Annotated[str, Meta(description="The environment variable with the relay's token.")] = (
        "SEGUE_RELAY_TOKEN"
    )
    relay_token_file: Annotated[
        Path | None, Meta(description="A file with the relay's token, instead of the variable.")
    ] = None
    relay_timeout: Annotated[Seconds, Meta(description="Seconds an action may take.")] = 900
    extensions: Annotated[
        tuple[str, ...], Meta(description="More commands that agents may use: see docs/bridge.md.")
    ] = ()
    listen: Annotated[str, Meta(description="The address `segue bridge serve` listens on.")] = "127.0.0.1"
    port: Annotated[Port, Meta(description="Its port; 0 picks a free one.")] = 8377
    hosts: Annotated[
        tuple[str, ...], Meta(description="More host names it answers to, such as that of a tunnel.")
    ] = ()
    token_env: Annotated[
        str, Meta(description="The environment variable with the token of `bridge serve`.")
    ] = "SEGUE_BRIDGE_TOKEN"
    webhook_secret_env: Annotated[
        str, Meta(description="The environment variable with the secret that signs Cursor's webhooks.")
    ] = "CURSOR_WEBHOOK_SECRET"
    completion_url: Annotated[
        str | None,
        Meta(description="Where to report the end of every subagent, in the form of Cursor's webhooks."),
    ] = None
    completion_secret_env: Annotated[
        str, Meta(description="The environment variable with the secret that signs these reports.")
    ] = "SEGUE_COMPLETION_SECRET"

    def __post_init__(self) -> None:
        try:
            repos = tuple(pattern(entry) if isinstance(entry, str) else entry for entry in self.allow_repos)
        except ValueError as error:
            raise OptionError("allow_repos", str(error)) from None
        force_setattr(self, "allow_repos", repos)
        for name in ("relay_url", "completion_url"):
            if url := getattr(self, name):
                force_setattr(self, name, _check_address(name, url))
        if self.time_zone != "UTC":
            _check_zone(self.time_zone)
