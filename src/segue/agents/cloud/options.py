"""The options that all cloud agents have, and where their repository is."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from msgspec import structs

from segue.agents.cloud.repository import canonical_address
from segue.domain.options import Count, OptionError, Options, Seconds
from segue.system.git.repository import Repository
from segue.system.http.client import LOOPBACK


class CloudAccess(Options, frozen=True):
    """The part of a table `[agents.NAME]` that is the same for each vendor."""

    base_url: str = ""
    """The address of the API."""
    repository: str | None = None
    """The hosted repository to work in; the remote `origin` of the workspace if unset."""
    poll_interval: Seconds = 15.0
    """Seconds between two looks at work that cannot be streamed."""
    max_connections: Count = 20
    """Requests at the same time, in addition to streams."""
    retry_pause: Seconds = 1.0
    """Seconds before the first retry of a request; doubled each time."""

    def __post_init__(self) -> None:
        check_address(self.base_url)
        structs.force_setattr(self, "base_url", self.base_url.rstrip("/"))
        if self.repository is not None:
            try:
                structs.force_setattr(self, "repository", canonical_address(self.repository))
            except ValueError as error:
                raise OptionError("repository", str(error)) from None


def check_address(url: str) -> None:
    """Raise OptionError for an address that a key must not be sent to."""
    parts = urlsplit(url)
    if parts.username or parts.password:
        raise OptionError(
            "base_url", "must not contain a user or password; the key comes from the environment"
        )
    if not parts.hostname:
        raise OptionError("base_url", "must name a server")
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
        message = "must begin with https:// (or http:// on this machine): the key is sent there"
        raise OptionError("base_url", message)


async def find_origin(workspace: Path, agent: str) -> str:
    """Return the hosted repository that the workspace is a clone of; raises ValueError."""
    url = await (await Repository.open(workspace)).remote_url("origin")
    hint = f"set agents.{agent}.repository to the repository's address"
    if url is None:
        raise ValueError(f"the workspace has no remote called origin; {hint}")
    try:
        return canonical_address(url)
    except ValueError as error:
        raise ValueError(f"the remote origin: {error}; {hint}") from None
