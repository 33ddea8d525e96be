"""Check that a searcher keeps the promises of `segue.ports.Searcher`; run this on your own searchers too.

def test_my_searcher() -> None:
    check_searcher(lambda services: MySearcher(MyOptions(), services), query="row level security")
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from segue.domain.errors import SearchFailed
from segue.domain.verdict import Hit
from segue.parts.conformance.trial import check_promises, expect
from segue.ports import Searcher
from segue.system.services import Services

MakeSearcher = Callable[[Services], Searcher]
_AWKWARD = ("", " \n\t", "\x00\x1b[31m\ud800", "word " * 10_000, "a\nb&c=d#e%20'\"", "数据库 🔍")


def check_searcher(make: MakeSearcher, query: str, fails: MakeSearcher | None = None) -> None:
    """Raise AssertionError with every promise that the searcher breaks.

    `make` builds a searcher that finds something for the query; `fails` one that cannot search, if there
    is one.
    """

    def begin(services: Services) -> _SearchTrial:
        return _SearchTrial(make(services), fails(services) if fails else None, query)

    check_promises("searcher", begin, (_finds, _takes_any_query, _fails))


class _SearchTrial(Struct, frozen=True):
    searcher: Searcher
    failing: Searcher | None
    query: str


async def _finds(trial: _SearchTrial) -> None:
    """It has a name and finds hits with a title, an address and a text."""
    expect(bool(trial.searcher.name), "its name is empty")
    found = await _search(trial.searcher, trial.query)
    expect(not isinstance(found, SearchFailed), f"it failed: {found}")
    expect(bool(found), "nothing was found")


async def _takes_any_query(trial: _SearchTrial) -> None:
    """Any query gives hits, nothing or SearchFailed, also an empty or a very long one."""
    for query in _AWKWARD:
        await _search(trial.searcher, query)


async def _fails(trial: _SearchTrial) -> None:
    """A search without an answer raises SearchFailed with a message; it is not a search without hits."""
    if trial.failing is not None:
        found = await _search(trial.failing, trial.query)
        expect(isinstance(found, SearchFailed), f"it found {found}")


async def _search(searcher: Searcher, query: str) -> list[Hit] | SearchFailed:
    try:
        found = await searcher.search(query)
    except SearchFailed as error:
        expect(bool(error.message.strip()), "the message of the failure is empty")
        return error
    except Exception as error:
        raise AssertionError(f"{query[:40]!r} raised {type(error).__name__}: {error}") from error
    expect(isinstance(found, list), f"{query[:40]!r} gave {type(found).__name__} and not a list")
    for hit in found:
        expect(isinstance(hit, Hit), f"{hit!r} is not a Hit")
        words = (hit.title, hit.url, hit.text)
        expect(all(isinstance(word, str) for word in words), f"{hit} has fields that are not texts")
        expect(bool(hit.title.strip()) and bool(hit.url), f"{hit} has no title or no address")
        expect(hit.url.isprintable() and " " not in hit.url, f"{hit.url!r} is not an address")
    return found
