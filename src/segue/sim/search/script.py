"""The script of the search simulator: which query finds what, and what goes wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from msgspec import Meta

from segue.domain.options import Options
from segue.sim.script import Deck, check_pattern, equals, matches

SearchApi = Literal["searxng", "brave", "tavily"]
SearchFault = Literal[
    "down", "rate_limited", "bad_key", "junk", "html", "cut", "no_json", "used_up", "silent"
]

FAULTS: dict[str, str] = {
    "down": "503, or the `status` of the entry",
    "rate_limited": "429 as the service words it; `headers` may contain retry-after",
    "bad_key": "the service rejects the key",
    "junk": "200 with JSON of another shape",
    "html": "200 with a page for people",
    "cut": "the connection is closed in the middle of the answer",
    "no_json": "SearXNG only: 403, as an instance without the format answers",
    "used_up": "Tavily only: 432, the plan's limit",
    "silent": "SearXNG only: no results, and the engines that did not answer",
}


class FoundPage(Options, frozen=True):
    """A page that a search finds."""

    title: str
    url: str
    text: str = ""


class SearchEntry(Options, frozen=True):
    """One answer: when it applies, what is found, and what goes wrong."""

    match: Annotated[str, Meta(description="a regular expression found in the query")] = ""
    api: Annotated[SearchApi | None, Meta(description="only `searxng`, `brave` or `tavily`")] = None
    times: Annotated[int, Meta(description="the entry answers this many searches; 0: any number")] = 0
    results: Annotated[Sequence[FoundPage], Meta(description="what is found: `title`, `url`, `text`")] = []
    fault: Annotated[SearchFault | None, Meta(description="what goes wrong")] = None
    status: Annotated[int, Meta(description="the HTTP status of the fault `down`")] = 503
    headers: Annotated[Mapping[str, str], Meta(description="headers of the answer, such as retry-after")] = {}
    delay: Annotated[float, Meta(description="seconds before the answer")] = 0.0

    def __post_init__(self) -> None:
        check_pattern(self.match)


class SearchScript(Options, frozen=True):
    """Everything the simulator can be told."""

    on: Annotated[
        Sequence[SearchEntry],
        Meta(description="the answers; the first that matches and is not used up is given"),
    ] = []


def pick_entry(deck: Deck[SearchEntry], api: SearchApi, query: str) -> SearchEntry:
    """Return the entry that answers the query; without one, a page about the query is found."""
    page = FoundPage(title=query, url="https://example.com/", text=f"About {query}.")
    return deck.pick({"api": equals(api), "match": matches(query)}) or SearchEntry(results=[page])
