"""Tavily's search API."""

from __future__ import annotations

from segue.domain.verdict import Hit
from segue.searchers.asking import ask, clean_query, document, hits, open_keyed, words_of
from segue.searchers.options import SearchSettings
from segue.system.services import Services

BASE_URL = "https://api.tavily.com"
KEY = "TAVILY_API_KEY"

_PLAN_USED_UP, _BUDGET_USED_UP = 432, 433


def headers(key: str) -> dict[str, str]:
    """Return the headers with the key."""
    return {"accept": "application/json", "authorization": f"Bearer {key}"}


class TavilySearcher:
    """Asks Tavily; its texts are excerpts of the pages."""

    Options = SearchSettings
    name = "tavily"

    def __init__(self, options: SearchSettings, services: Services) -> None:
        self._service = open_keyed(self.name, BASE_URL, KEY, headers, options, services)

    async def search(self, query: str) -> list[Hit]:
        """Return what Tavily finds, best first."""
        service, most = self._service, self._service.options.max_results
        body = {"query": clean_query(service, query), "max_results": most, "search_depth": "basic"}
        answer = await ask(service, "POST", "/search", body=body)
        if answer.status in (_PLAN_USED_UP, _BUDGET_USED_UP):
            raise service.failed(
                f"the account's limit is used up (HTTP {answer.status}: {words_of(answer)})",
                "Raise the limit of the account, or set search.service to another one",
            )
        return hits(document(service, answer).get("results"), ("title", "url", "content"), most)
