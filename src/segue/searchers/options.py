"""The table `[search]`: the web search."""

from typing import Annotated

from msgspec import Meta

from segue.domain.options import Options, Seconds, WebAddress


class SearchSettings(Options, frozen=True):
    """The table `[search]`."""

    service: Annotated[
        str | None,
        Meta(description="`searxng`, `brave`, `tavily` or a plug-in; if unset, a research agent searches."),
    ] = None
    base_url: Annotated[
        WebAddress | None,
        Meta(description="The service's address; required for `searxng`, else the vendor's own if unset."),
    ] = None
    api_key_env: Annotated[
        str | None,
        Meta(description="The variable with the key; `BRAVE_API_KEY` or `TAVILY_API_KEY` if unset."),
    ] = None
    max_results: Annotated[int, Meta(ge=1, le=20, description="Results to take from one search.")] = 5
    timeout: Annotated[Seconds, Meta(description="Seconds one answer of the service may take.")] = 20
    max_wait: Annotated[
        float, Meta(ge=0, description="Seconds to wait out rate limits and outages, per search.")
    ] = 60
