"""The search services: Brave, Tavily, and SearXNG, a metasearch engine that people host themselves."""

from __future__ import annotations

from typing import Any

from segue.domain.errors import SearchFailed, UsageError
from segue.domain.verdict import Hit
from segue.parts.searchers.asking import Service, ask, clean_query, document, hits, open_keyed, words_of
from segue.parts.searchers.options import SearchSettings
from segue.system.services import Services

_MOST_WORDS = 50
"""Words of a query that Brave accepts."""
_PLAN_USED_UP, _BUDGET_USED_UP = 432, 433
"""Tavily's own status codes."""


class BraveSearcher:
    """Asks Brave for web results."""

    Options = SearchSettings
    name = "brave"

    def __init__(self, options: SearchSettings, services: Services) -> None:
        self._service = open_keyed(
            self.name,
            "https://api.search.brave.com",
            "BRAVE_API_KEY",
            lambda key: {"x-subscription-token": key},
            options,
            services,
        )

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


class TavilySearcher:
    """Asks Tavily; its texts are excerpts of the pages."""

    Options = SearchSettings
    name = "tavily"

    def __init__(self, options: SearchSettings, services: Services) -> None:
        self._service = open_keyed(
            self.name,
            "https://api.tavily.com",
            "TAVILY_API_KEY",
            lambda key: {"authorization": f"Bearer {key}"},
            options,
            services,
        )

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


class SearxngSearcher:
    """Asks an instance for its results as JSON."""

    Options = SearchSettings
    name = "searxng"

    def __init__(self, options: SearchSettings, services: Services) -> None:
        if options.base_url is None:
            raise UsageError(
                "search.service is searxng, but search.base_url is not set.",
                hint='Set search.base_url to your instance, such as "http://localhost:8888"',
            )
        self._service = Service(self.name, options.base_url, {}, options, services.redactor.text)

    async def search(self, query: str) -> list[Hit]:
        """Return what the instance finds, best first."""
        service = self._service
        asked = {"q": clean_query(service, query), "format": "json"}
        answer = await ask(service, "GET", "/search", query=asked)
        if answer.status == 403:
            # That is how an instance says that it knows the format and does not offer it.
            raise service.failed(
                "the instance offers no JSON (HTTP 403)",
                "Add `json` to search.formats in the instance's settings.yml, or use an instance of your own",
            )
        found = document(service, answer)
        results = hits(found.get("results"), ("title", "url", "content"), service.options.max_results)
        if not results and found.get("unresponsive_engines"):
            raise self._silent(found["unresponsive_engines"])
        return results

    def _silent(self, engines: Any) -> SearchFailed:
        named = [" ".join(map(str, engine)) for engine in engines if isinstance(engine, list)]
        return self._service.failed(
            f"its engines do not answer: {'; '.join(named)[:300]}",
            "Try again later, or enable other engines in the instance",
        )
