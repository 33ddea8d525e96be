"""GitHub: where its API is, and the token to use it with."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from segue.domain.errors import CredentialsError
from segue.system.http.rest import Rest, RestWords
from segue.system.process.capture import child_environment, probe

_PUBLIC = "https://api.github.com"
TOKENS = ("GH_TOKEN", "GITHUB_TOKEN")
ENTERPRISE_TOKENS = ("GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")
_GH_PASSED = ("GH_", "XDG_", "DBUS_SESSION_BUS_ADDRESS")
"""How variables begin by which gh finds where it keeps its login."""


MEMBERS = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
"""Authors who may write to the repository, or belong to its organisation."""


class GithubUser(Struct, frozen=True):
    """Who wrote something."""

    login: str = "ghost"
    type: str = "User"


class GithubLabel(Struct, frozen=True):
    """A label of an issue or a pull request."""

    name: str = ""


class GithubAccess(Struct, frozen=True):
    """An address and a token. Printing it shows no token."""

    api_url: str
    token: str

    def __repr__(self) -> str:
        return f"GithubAccess({self.api_url!r})"


def find_access() -> GithubAccess:
    """Return the address and the token: of the environment, or of gh where it is logged in.

    Raises CredentialsError if there is none.
    """
    api_url = (os.environ.get("GITHUB_API_URL", "").strip() or _PUBLIC).rstrip("/")
    public = api_url == _PUBLIC
    for name in TOKENS if public else (*ENTERPRISE_TOKENS, *TOKENS):
        if token := os.environ.get(name, "").strip():
            return GithubAccess(api_url, token)
    token = ask_gh("github.com" if public else urlsplit(api_url).netloc)
    if token:
        return GithubAccess(api_url, token)
    raise CredentialsError(
        f"There is no token for GitHub ({api_url}).",
        kept="Nothing was started.",
        hint="Log in with: gh auth login   or set GITHUB_TOKEN",
    )


def ask_gh(host: str, folder: Path | None = None) -> str:
    """Return the token that gh uses for a host; empty if gh is absent or not logged in."""
    own = [name for name in os.environ if name.startswith(_GH_PASSED)]
    said = probe(["gh", "auth", "token", "--hostname", host], env=child_environment(own), cwd=folder)
    return said.out.decode("utf-8", "replace").strip() if said is not None and said.exit_code == 0 else ""


def open_rest(access: GithubAccess, clean: Callable[[str], str], words: RestWords) -> Rest:
    """Return the REST API with a token."""
    headers = {
        "authorization": f"Bearer {access.token}",
        "accept": "application/vnd.github+json",
        "x-github-api-version": "2022-11-28",
    }
    return Rest("GitHub", access.api_url, headers, clean, words=words)


def open_graphql(access: GithubAccess, clean: Callable[[str], str], words: RestWords) -> Rest:
    """Return the GraphQL API, which servers of one's own have beside the REST API."""
    url = access.api_url
    beside = url.removesuffix("/v3") if url.endswith("/api/v3") else url
    return open_rest(GithubAccess(beside, access.token), clean, words)
