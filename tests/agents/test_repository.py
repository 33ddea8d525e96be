"""Addresses of repositories: every spelling of one gives the same, and nothing else does."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from segue.agents.cloud.repository import canonical_address, same_repository

SPELLINGS = [
    "https://github.com/Octo/app",
    "https://github.com/Octo/app.git",
    "https://github.com/Octo/app/",
    "HTTPS://GitHub.COM/Octo/app",
    "https://github.com:443/Octo/app",
    "https://user:p@ss:word@github.com/Octo/app.git",
    "ssh://git@github.com/Octo/app.git",
    "ssh://git@github.com:22/Octo/app.git",
    "git://github.com/Octo/app",
    "git@github.com:Octo/app.git",
    "github.com:Octo/app",
    "github.com/Octo/app",
    "  https://github.com/Octo/app#readme ",
    "https://github.com/%4fcto/%61pp%2egit",
]


@pytest.mark.parametrize("address", SPELLINGS)
def test_every_spelling_gives_one_address(address: str) -> None:
    assert canonical_address(address) == "https://github.com/Octo/app"


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("https://git.example.com:8443/o/r", "https://git.example.com:8443/o/r"),
        ("ssh://git@git.example.com:2222/o/r", "https://git.example.com/o/r"),
        ("git@gitserver:o/r", "https://gitserver/o/r"),
        ("https://gitlab.com/a/b/c.git", "https://gitlab.com/a/b/c"),
        ("https://dev.azure.com/o/My%20Project/_git/r", "https://dev.azure.com/o/My%20Project/_git/r"),
    ],
)
def test_ports_groups_and_plain_hosts(address: str, expected: str) -> None:
    assert canonical_address(address) == expected


@pytest.mark.parametrize(
    "address",
    [
        "",
        "octo/app",
        "/srv/git/app.git",
        "file:///srv/git/app.git",
        "C:/code/app",
        "https://github.com",
        "https://github.com/app",
        "https://github.com/octo/..",
        "https://github.com/octo/../other/app",
        "https://github.com/octo/%2egit",
        "https://github.com/octo//app",
        "https://github.com\\@evil.example/o/r",
        "https://git hub.com/o/r",
        "ftp://github.com/o/r",
    ],
)
def test_what_is_no_hosted_repository_is_refused(address: str) -> None:
    with pytest.raises(ValueError):
        canonical_address(address)
    assert not same_repository(address, address)


def test_a_user_that_looks_like_a_host_does_not_deceive() -> None:
    assert canonical_address("https://github.com@evil.example/o/r") == "https://evil.example/o/r"
    assert not same_repository("https://github.com@evil.example/o/r", "https://github.com/o/r")


def test_a_refusal_does_not_repeat_the_password() -> None:
    with pytest.raises(ValueError) as refused:
        canonical_address("https://me:hunter2hunter2@github.com/")
    assert "hunter2" not in str(refused.value)


def test_the_case_of_the_path_is_kept_but_makes_no_other_repository() -> None:
    assert same_repository("github.com/octo/APP", "https://github.com/Octo/app.git")
    assert not same_repository("github.com/octo/app", "github.com/octo/app2")


hosts = st.from_regex(r"[a-z]{1,8}\.[a-z]{2,5}", fullmatch=True)
names = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,10}", fullmatch=True)


@given(hosts, names, names, st.sampled_from(["https://", "ssh://git@", "git@", ""]), st.booleans())
def test_spelling_never_matters(host: str, owner: str, name: str, start: str, suffix: bool) -> None:
    assume(not name.lower().endswith(".git"))
    glue = ":" if start == "git@" else "/"
    spelled = f"{start}{host.upper()}{glue}{owner}/{name}{'.git' if suffix else ''}"
    assert canonical_address(spelled) == f"https://{host}/{owner}/{name}"
    assert same_repository(spelled, f"{host}/{owner}/{name}")


@given(st.text(st.sampled_from("abC.:/@-~%+g it\\#?[]\u00e9"), max_size=30) | st.text(max_size=30))
def test_canonical_is_its_own_canonical_form(address: str) -> None:
    try:
        once = canonical_address(address)
    except ValueError:
        return
    assert canonical_address(once) == once
    assert once.startswith("https://")
    assert "@" not in once
    assert ".." not in once.split("/")
