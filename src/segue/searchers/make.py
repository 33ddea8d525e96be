"""Builds the search service that the settings name."""

from __future__ import annotations

import os
from collections.abc import Callable

from segue.domain.errors import CredentialsError, UsageError
from segue.ports import Searcher
from segue.searchers import brave, tavily
from segue.searchers.asking import Service
from segue.searchers.brave import BraveSearcher
from segue.searchers.options import SearchSettings
from segue.searchers.searxng import SearxngSearcher
from segue.searchers.tavily import TavilySearcher
from segue.system.redact import Redactor

_Kind = Callable[[Service], Searcher]
_KEYED: dict[str, tuple[_Kind, str, str, Callable[[str], dict[str, str]]]] = {
    "brave": (BraveSearcher, brave.BASE_URL, brave.KEY, brave.headers),
    "tavily": (TavilySearcher, tavily.BASE_URL, tavily.KEY, tavily.headers),
}


def make_searcher(options: SearchSettings, redactor: Redactor) -> Searcher | None:
    """The configured service; None when there is none. Raises what keeps it from being asked."""
    if options.service is None:
        return None
    if options.service == "searxng":
        return _searxng(options, redactor)
    kind, base_url, usual_key, headers = _KEYED[options.service]
    variable = options.api_key_env or usual_key
    key = os.environ.get(variable, "").strip()
    if not key:
        raise CredentialsError(
            f"The key of the search service {options.service}, {variable}, is not set.",
            hint=f"export {variable}=…, or set search.api_key_env",
        )
    own = Redactor([key])
    return kind(
        Service(
            options.service,
            options.base_url or base_url,
            headers(key),
            options,
            lambda text: own.text(redactor.text(text)),
        )
    )


def _searxng(options: SearchSettings, redactor: Redactor) -> Searcher:
    if options.base_url is None:
        raise UsageError(
            "search.service is searxng, but search.base_url is not set.",
            hint='Set search.base_url to your instance, such as "http://localhost:8888"',
        )
    headers = {"accept": "application/json"}
    return SearxngSearcher(Service("searxng", options.base_url, headers, options, redactor.text))
