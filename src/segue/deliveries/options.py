"""The table `[deliveries.pr]`: which service has the repository, and whose comments count."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from segue.domain.options import Options, Text, WebAddress


class PullRequestOptions(Options, frozen=True):
    """The table `[deliveries.pr]`."""

    service: Literal["github", "gitlab"] | None = None
    """Where the repository is; recognised by the host of `origin` if unset."""
    api: WebAddress | None = None
    """The address of the API, for a server of your own; derived from the host of `origin` if unset."""
    project: Annotated[str, Meta(pattern="^[^/ ]+(/[^/ ]+)+$")] | None = None
    """`OWNER/NAME` of the repository; read from the address of `origin` if unset."""
    authors: tuple[Text, ...] = ()
    """Whose comments count beside those of members, by login: a review bot, for example."""
