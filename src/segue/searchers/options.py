"""The settings of the web search."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Service = Literal["searxng", "brave", "tavily"]


class SearchSettings(BaseModel):
    """The table `[search]`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    service: Service | None = Field(
        None, description="`searxng`, `brave` or `tavily`; a research agent searches when unset."
    )
    base_url: str | None = Field(
        None,
        pattern=r"^https?://[^/]",
        description="Where the service is; required for `searxng`, the vendor's own address otherwise.",
    )
    api_key_env: str | None = Field(
        None,
        description="The variable that holds the key; `BRAVE_API_KEY` or `TAVILY_API_KEY` if unset.",
    )
    max_results: int = Field(5, ge=1, le=20, description="Results taken from one search.")
    timeout: float = Field(20, gt=0, description="Seconds one answer of the service may take.")
    max_wait: float = Field(
        60, ge=0, description="Seconds to wait out rate limits and outages of the service, per search."
    )
