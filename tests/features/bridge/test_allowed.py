"""The allow-list: every spelling of what is allowed, and nothing else."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segue.domain.options import read_options
from segue.features.bridge.options import AllowedRepo, BridgeSettings, pattern
from segue.features.bridge.subagent import find_target


def allowed(*entries: str | dict[str, str]) -> tuple[str | AllowedRepo, ...]:
    return read_options(BridgeSettings, {"allow_repos": list(entries)}).allow_repos


@pytest.mark.parametrize(
    "repo",
    [
        "github.com/me/app",
        "HTTP://GitHub.com/Me/App.git/",
        "git@github.com:me/app.git",
        "ssh://git@github.com:22/me/app",
        "https://user:password@github.com/me/app?x=1#y",
    ],
)
@pytest.mark.parametrize(
    "entry", ["me/*", "github.com/me/*", "https://github.com/Me/app.git", "github.com/me/app"]
)
def test_every_spelling_of_what_is_allowed(entry: str, repo: str) -> None:
    found = find_target(repo, allowed(entry)).name
    assert found.lower() == "https://github.com/me/app"
    assert entry.endswith("/*") or found == pattern(entry), "the user's own spelling is sent"


@pytest.mark.parametrize(
    "repo",
    [
        "github.com/me2/app",
        "github.com/me/app2",
        "gitlab.com/me/app",
        "github.com.evil.example/me/app",
        "github.com/me/app/../../evil/x",
        "github.com/me/sub/app",
        "evil.example/github.com/me/app",
        "https://github.com@evil.example/me/app",
        "me/app",
        "",
        "file:///me/app",
        "~/app",
        "github.com/me/*",
    ],
)
def test_everything_else_is_refused(repo: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        find_target(repo, allowed("github.com/me/app", "/somewhere/else"))


def _encode(text: str, how: list[int]) -> str:
    """Encode each character in one of four ways: as it is, once in either case, or twice."""
    kinds = ["{0}", "%{1:02x}", "%{1:02X}", "%25{1:02x}"]
    return "".join(kinds[way].format(letter, ord(letter)) for letter, way in zip(text, how, strict=False))


pieces = st.sampled_from(
    ["..", ".", "/", "\\", "evil", "my-team", "a", "%", "?", "#", "@", ":", ";", "\0", "\n", " "]
)


@given(
    st.lists(pieces, min_size=1, max_size=6).map("".join),
    st.lists(st.integers(0, 3), min_size=40, max_size=40),
)
def test_a_wildcard_stands_for_one_name_in_every_encoding(name: str, how: list[int]) -> None:
    try:
        found = find_target(f"github.com/my-team/{_encode(name, how)}", allowed("my-team/*")).name
    except ValueError:
        return
    owner, _, last = found.rpartition("/")
    assert owner == "https://github.com/my-team"
    for _ in range(3):  # however often a service decodes it
        assert not set(last) & set("/\\?#@:;\0\n")
        assert last.strip(". ")
        last = unquote(last)


@pytest.mark.parametrize(
    "entry", ["*", "*/app", "*/*", "github.com/*/app", "app", "src/app/", "./app", "http://"]
)
def test_wrong_entries_are_refused(entry: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        allowed(entry)


def test_folders_are_compared_after_links(tmp_path: Path) -> None:
    (tmp_path / "app" / "inner").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "app")
    (tmp_path / "out").symlink_to("/")
    entries = allowed({"repo": "github.com/me/app", "folder": str(tmp_path / "link")})
    found = find_target(str(tmp_path / "app"), entries)
    assert (found.repository, found.folder) == ("https://github.com/me/app", tmp_path / "app")
    assert find_target("github.com/me/app", entries).folder == tmp_path / "link"
    for other in ("app/inner", "out", ".", "app/inner/../.."):
        with pytest.raises(ValueError, match="allow-list"):
            find_target(str(tmp_path / other), entries)
