"""Texts of pull requests: Segue's part is replaced and nothing else, and logs are cut to the failure."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.deliveries.hosting import HostedPlace, PullRequestOptions, find_place, key_names, read_remote
from segue.deliveries.pull_request import cut_log, is_ours, was_drafted, write_body
from segue.ports import Problem


@given(st.text(), st.text(), st.text(), st.booleans())
def test_only_our_part_is_replaced(before: str, first: str, second: str, drafted: bool) -> None:
    once = write_body(before, "r1", first, drafted)
    assert is_ours(once, "r1")
    assert not is_ours(once, "r")
    assert was_drafted(once, "r1") is drafted
    twice = write_body(f"Mine. {once} Yours.", "r1", second, drafted=False)
    assert twice.startswith("Mine. ")
    assert twice.endswith(" Yours.")
    assert twice.count("segue:run=r1") == 1 + before.count("segue:run=r1")
    assert not was_drafted(twice, "r1")


def test_a_body_that_is_too_long_is_cut_and_says_so() -> None:
    body = write_body("Mine.", "r1", "x" * 100_000, drafted=False)
    assert len(body) < 65_000
    assert "segue proof r1" in body
    assert body.endswith("<!-- segue:end -->")


GITHUB_LOG = "\n".join(
    [
        "2026-11-16T07:00:00.0000000Z ##[group]Run actions/checkout@v4",
        *(f"2026-11-16T07:00:01.0000000Z line {number}" for number in range(500)),
        "2026-11-16T07:00:02.0000000Z \x1b[31mFAILED tests/test_a.py::test_sum - assert 3 == 4\x1b[0m",
        "2026-11-16T07:00:02.0000000Z 1 failed, 12 passed in 0.3s",
        "2026-11-16T07:00:03.0000000Z ##[error]Process completed with exit code 1.",
        *(f"2026-11-16T07:00:04.0000000Z Post job cleanup {number}" for number in range(300)),
    ]
)


def test_a_log_is_cut_to_the_failure() -> None:
    cut = cut_log(GITHUB_LOG)
    assert "FAILED tests/test_a.py::test_sum - assert 3 == 4" in cut
    assert "1 failed, 12 passed" in cut
    assert "cleanup" not in cut
    assert "line 100" not in cut
    assert "2026-11-16T" not in cut
    assert "\x1b" not in cut


@given(st.text(), st.integers(min_value=100, max_value=2000))
def test_a_cut_log_is_bounded(log: str, most: int) -> None:
    assert len(cut_log(log, most)) <= most + 10


def test_a_log_without_a_known_word_keeps_its_end() -> None:
    assert cut_log("\n".join(f"line {number}" for number in range(500))).endswith("line 499")


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("https://user:secret@github.com/me/app.git", ("github.com", "me/app")),
        ("git@github.com:me/app.git", ("github.com", "me/app")),
        ("ssh://git@git.example.com:2222/group/app.git", ("git.example.com", "group/app")),
        ("https://git.example.com:8443/group/app", ("git.example.com:8443", "group/app")),
        ("/srv/git/app.git", ("", "")),
        ("file:///srv/git/app.git", ("", "")),
    ],
)
def test_addresses_of_remotes(address: str, found: tuple[str, str]) -> None:
    assert read_remote(address) == found


def place(remote: str, **options: str) -> HostedPlace:
    found = find_place(PullRequestOptions(**options), remote)  # type: ignore[arg-type]
    assert not isinstance(found, Problem)
    return found


def test_github_is_recognised_by_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_API_URL", raising=False)
    assert place("git@github.com:me/app.git").api == "https://api.github.com"
    assert place("https://github.example.com/me/app").api == "https://github.example.com/api/v3"
    assert place("https://git.example.com/me/app", api="https://git.example.com/api/v3").project == "me/app"
    for other in ("https://notgithub.com/me/app", "https://gitlab.com/me/app", "/srv/app.git"):
        assert isinstance(find_place(PullRequestOptions(), other), Problem)


def test_a_token_for_one_host_is_not_sent_to_another() -> None:
    assert "GITHUB_TOKEN" in key_names(place("https://github.com/me/app"), named=False)
    assert "GITHUB_TOKEN" not in key_names(place("https://github.example.com/me/app"), named=False)
