"""Every search service finds the same in its own words, waits when told to, and fails in plain words."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.errors import CredentialsError, SearchFailed, UsageError
from segue.domain.options import read_options
from segue.domain.verdict import Hit
from segue.parts.searchers.asking import hits
from segue.parts.searchers.options import SearchSettings
from segue.parts.searchers.sim import SearchScript, search_app
from segue.ports import Searcher
from segue.runtime import registry
from segue.sim.script import check_script
from segue.system.http.server import start_server
from tests import loopback
from tests.services import make_services

SERVICES = ["searxng", "brave", "tavily"]


def make_searcher(options: SearchSettings, *secrets: str) -> Searcher:
    """Build the service that the options name."""
    made: Searcher = registry.load("searchers", options.service or "")(
        options, make_services(secrets=secrets)
    )
    return made


KEY = "search-key-0123456789"
SECRET = "a-secret-of-the-user"
GUIDE = {
    "title": "Row <b>level</b> security",
    "url": "https://supabase.com/rls",
    "text": "Use &amp; test it.",
}


@dataclass(frozen=True)
class Desk:
    """Where the simulator listens."""

    url: str

    def searcher(self, service: str, **options: Any) -> Searcher:
        values = {"service": service, "base_url": self.url, "api_key_env": "SEARCH_KEY", "max_wait": 30}
        return make_searcher(read_options(SearchSettings, values | options), SECRET)

    def search(self, service: str, query: str = "supabase rls", **options: Any) -> list[Hit]:
        return asyncio.run(self.searcher(service, **options).search(query))

    def seen(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = loopback.get(f"{self.url}/_sim/log").json()["requests"]
        return found

    def asked(self) -> str:
        request = self.seen()[-1]
        return str(request["query"].get("q") or request["body"]["query"])


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARCH_KEY", KEY)


@contextmanager
def desk(*entries: dict[str, Any]) -> Iterator[Desk]:
    url, stop = start_server(search_app(check_script(list(entries), SearchScript)))
    try:
        yield Desk(url)
    finally:
        stop()


@pytest.mark.parametrize("service", SERVICES)
def test_the_same_hits_from_every_service(service: str) -> None:
    other = {"title": "Other", "url": "https://example.com/x"}
    with desk({"match": "rls", "results": [GUIDE, GUIDE, other]}) as here:
        assert here.searcher(service).name == service
        assert here.search(service) == [
            Hit("Row level security", "https://supabase.com/rls", "Use & test it."),
            Hit("Other", "https://example.com/x", ""),
        ]


@pytest.mark.parametrize("service", SERVICES)
def test_no_more_than_wanted(service: str) -> None:
    many = [{"title": str(n), "url": f"https://example.com/{n}"} for n in range(30)]
    with desk({"results": many}) as here:
        assert [hit.title for hit in here.search(service, max_results=3)] == ["0", "1", "2"]


@pytest.mark.parametrize("service", SERVICES)
def test_nothing_found_is_no_failure(service: str) -> None:
    with desk({"results": []}) as here:
        assert here.search(service) == []


@pytest.mark.parametrize("service", SERVICES)
def test_queries_are_bounded_and_carry_no_secrets(service: str) -> None:
    with desk() as here:
        here.search(
            service, f"how to\nuse {SECRET} and {KEY if service != 'searxng' else SECRET} \x00" + "x " * 900
        )
        asked = here.asked()
        assert asked.startswith("how to use [redacted] and [redacted] x x")
        assert len(asked) <= 400
        with pytest.raises(SearchFailed, match="empty"):
            here.search(service, " \n\x00 ")


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("status", [500, 502, 503])
def test_a_passing_outage_is_waited_out(service: str, status: int) -> None:
    with desk({"fault": "down", "status": status, "times": 1}, {"results": [GUIDE]}) as here:
        assert len(here.search(service)) == 1
        assert [request["status"] for request in here.seen()] == [status, 200]


@pytest.mark.quick("brave")
@pytest.mark.parametrize("service", SERVICES)
def test_a_rate_limit_is_waited_out_as_long_as_it_asks(service: str) -> None:
    limited = {"fault": "rate_limited", "times": 1, "headers": {"retry-after": "1"}}
    with desk(limited, {"results": [GUIDE]}) as here:
        assert len(here.search(service)) == 1
        first, second = here.seen()
        assert second["at"] - first["at"] >= 1


@pytest.mark.parametrize("service", SERVICES)
def test_a_rate_limit_beyond_the_patience_is_said(service: str) -> None:
    with desk({"fault": "rate_limited", "headers": {"retry-after": "3600"}}) as here:
        with pytest.raises(SearchFailed, match=r"too many requests .*wait 3600 s") as raised:
            here.search(service, max_wait=1)
        assert "max_wait" in raised.value.hint
        assert len(here.seen()) == 1


@pytest.mark.thorough
@pytest.mark.quick("down-service is down-brave", "html-not a JSON object-searxng", "bad_key-rejected-tavily")
@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("down", "service is down"),
        ("html", "not a JSON object"),
        ("cut", "no answer"),
        ("bad_key", "rejected"),
    ],
)
def test_faults_become_plain_words(service: str, fault: str, words: str) -> None:
    with desk({"fault": fault, "results": [GUIDE]}) as here:
        with pytest.raises(SearchFailed) as raised:
            here.search(service, max_wait=0, timeout=10)
        assert words in raised.value.message
        assert raised.value.hint
        assert raised.value.kept
        assert KEY not in raised.value.message


@pytest.mark.parametrize("service", SERVICES)
def test_junk_finds_nothing(service: str) -> None:
    with desk({"fault": "junk"}) as here:
        assert here.search(service) == []


@pytest.mark.parametrize("service", SERVICES)
def test_a_slow_service_is_given_up(service: str) -> None:
    with desk({"delay": 30}) as here, pytest.raises(SearchFailed, match="no answer"):
        here.search(service, timeout=0.2, max_wait=0)


@pytest.mark.thorough
@pytest.mark.quick("searxng")
@pytest.mark.parametrize("service", SERVICES)
def test_a_service_that_is_not_there(service: str) -> None:
    with desk() as here:
        pass
    with pytest.raises(SearchFailed, match="no answer"):
        here.search(service, max_wait=0, timeout=10)


def test_what_searxng_alone_says() -> None:
    with desk({"match": "a", "fault": "no_json"}, {"match": "b", "fault": "silent"}) as here:
        with pytest.raises(SearchFailed, match="no JSON") as raised:
            here.search("searxng", "a")
        assert "search.formats" in raised.value.hint
        with pytest.raises(SearchFailed, match="google timeout; bing CAPTCHA"):
            here.search("searxng", "b")


def test_what_tavily_alone_says() -> None:
    with desk({"fault": "used_up"}) as here, pytest.raises(SearchFailed, match="432"):
        here.search("tavily")


def test_settings_that_cannot_work_are_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SEARCH_KEY")
    with pytest.raises(CredentialsError, match="SEARCH_KEY"):
        make_searcher(SearchSettings(service="brave", api_key_env="SEARCH_KEY"))
    with pytest.raises(UsageError, match="base_url"):
        make_searcher(SearchSettings(service="searxng"))


ANYTHING = st.recursive(
    st.none() | st.integers() | st.text(max_size=40) | st.just("https://example.com/a"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["t", "u", "x"]), inner),
    max_leaves=12,
)


@given(ANYTHING)
def test_whatever_a_service_sends_hits_are_bounded_plain_text(items: Any) -> None:
    found = hits(items, ("t", "u", "x"), 2)
    assert len(found) <= 2
    for hit in found:
        assert hit.url.startswith(("http://", "https://"))
        assert (hit.title + hit.text).isprintable()


def test_long_texts_are_cut() -> None:
    [hit] = hits([{"t": "x" * 10**6, "u": "https://e.com", "x": "word " * 10**5}], ("t", "u", "x"), 5)
    assert len(hit.title) <= 310
    assert len(hit.text) <= 1510
