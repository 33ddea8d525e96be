"""Brave's web search API."""

from __future__ import annotations

from segue.domain.verdict import Hit
from segue.searchers.asking import ask, clean_query, document, hits, open_keyed, words_of
from segue.searchers.options import SearchSettings
from segue.system.services import Services

BASE_URL = "https://api.search.brave.com"
KEY = "BRAVE_API_KEY"

_MOST_WORDS = 50


def headers(key: str) -> dict[str, str]:
    """Return the headers with the key."""
    return {"accept": "application/json", "x-subscription-token": key}


class BraveSearcher:
    """Asks Brave for web results."""

    Options = SearchSettings
    name = "brave"

    def __init__(self, options: SearchSettings, services: Services) -> None:
        self._service = open_keyed(self.name, BASE_URL, KEY, headers, options, services)

    async def search(self, query: str) -> list[Hit]:
        """Return what Brave finds, best first."""
        service, most = self._service, self._service.options.max_results
        words = " ".join(clean_query(service, query).split()[:_MOST_WORDS])
        asked = {"q": words, "count": str(most), "text_decorations": "false", "result_filter": "web"}
        answer = await ask(service, "GET", "/res/v1/web/search", query=asked)
        said = words_of(answer) if answer.status == 422 else ""
        if "SUBSCRIPTION_TOKEN" in said or "x-subscription-token" in answer.body.decode("utf-8", "replace"):
            raise service.failed(
                f"the key was rejected (HTTP 422: {said})", "Check the variable search.api_key_env names"
            )
        web = document(service, answer).get("web")
        return hits(
            web.get("results") if isinstance(web, dict) else [], ("title", "url", "description"), most
        )
