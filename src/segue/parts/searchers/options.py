"""The table `[search]`: the web search."""

from typing import Annotated, Any

from msgspec import Meta

from segue.domain.options import NonNegativeFloat, Options, Seconds, WebAddress


class SearchSettings(Options, frozen=True):
    """The table `[search]`."""

    service: str | None = None
    """`searxng`, `brave`, `tavily` or a plug-in; if unset, a research agent searches."""
    base_url: WebAddress | None = None
    """The service's address; required for `searxng`, else the vendor's own if unset."""
    api_key_env: str | None = None
    """The variable with the key; `BRAVE_API_KEY` or `TAVILY_API_KEY` if unset."""
    max_results: Annotated[int, Meta(ge=1, le=20)] = 5
    """Results to take from one search."""
    timeout: Seconds = 20
    """Seconds one answer of the service may take."""
    max_wait: NonNegativeFloat = 60
    """Seconds to wait out rate limits and outages, per search."""


Searchers = Annotated[
    dict[str, dict[str, Any]], Meta(description="Options per search service that is a plug-in.")
]
