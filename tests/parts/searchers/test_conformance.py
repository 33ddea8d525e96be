"""Searchers keep the promises of their socket, and the suite notices when one does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from segue import check_searcher
from segue.domain.options import read_options
from segue.domain.verdict import Hit
from segue.parts.searchers.options import SearchSettings
from segue.ports import Searcher
from segue.runtime import registry
from segue.system.services import Services
from tests.parts.searchers.test_searchers import GUIDE, SERVICES, desk


def ask(service: str, url: str) -> Callable[[Services], Searcher]:
    values = {"service": service, "base_url": url, "api_key_env": "SEARCH_KEY", "timeout": 60, "max_wait": 0}
    options = read_options(SearchSettings, values)

    def make(services: Services) -> Searcher:
        made: Searcher = registry.load("searchers", service)(options, services)
        return made

    return make


@pytest.mark.thorough
@pytest.mark.quick("tavily")
@pytest.mark.parametrize("service", SERVICES)
def test_the_services_conform(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARCH_KEY", "search-key-0123456789")
    with desk({"results": [GUIDE]}) as here, desk({"fault": "down", "status": 503}) as down:
        check_searcher(ask(service, here.url), "supabase rls", fails=ask(service, down.url))


class Careless:
    """Breaks every promise it can."""

    name = ""

    def __init__(self, services: Services) -> None:
        pass

    async def search(self, query: str) -> Any:
        if not query:
            raise ValueError("ask for something")
        return []


class Untidy(Careless):
    """Finds pages without titles."""

    name = "untidy"

    async def search(self, query: str) -> Any:
        return [Hit("", "https://example.com", "text")]


def test_the_suite_notices_broken_promises() -> None:
    with pytest.raises(AssertionError) as caught:
        check_searcher(Careless, "nothing", fails=Careless)
    for complaint in ("its name is empty", "raised ValueError: ask for something", "it found []"):
        assert complaint in str(caught.value)
    with pytest.raises(AssertionError, match="has no title"):
        check_searcher(Untidy, "anything")
