"""GitHub: where its API is, and the token to use it with."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from segue.domain.errors import CredentialsError
from segue.system.http.rest import Rest, RestWords
from segue.system.process.capture import child_environment, probe

PUBLIC = "https://api.github.com"
_TOKENS = ("GH_TOKEN", "GITHUB_TOKEN")
_ENTERPRISE_TOKENS = ("GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")
_GH_PASSED = ("GH_CONFIG_DIR", "DBUS_SESSION_BUS_ADDRESS")
"""Variables by which gh finds where it keeps its login."""
_REST_WORDS = RestWords("", "GITHUB_API_URL, or api_url in [github]", "docs/guides/issues.md")


class GithubAccess(Struct, frozen=True):
    """An address and a token. Printing it shows no token."""

    api_url: str
    token: str

    def __repr__(self) -> str:
        return f"GithubAccess({self.api_url!r})"

    @property
    def web_url(self) -> str:
        """Where people look at what the API serves."""
        if self.api_url == PUBLIC:
            return "https://github.com"
        return self.api_url.removesuffix("/api/v3")


def find_access(api_url: str | None, environment: Mapping[str, str] | None = None) -> GithubAccess:
    """Return the address and the token: of the environment, or of gh where it is logged in.

    Raises CredentialsError if there is none.
    """
    known = os.environ if environment is None else environment
    api_url = find_address(api_url, known)
    public = api_url == PUBLIC
    for name in _TOKENS if public else (*_ENTERPRISE_TOKENS, *_TOKENS):
        if token := known.get(name, "").strip():
            return GithubAccess(api_url, token)
    token = _ask_gh("github.com" if public else urlsplit(api_url).netloc)
    if token:
        return GithubAccess(api_url, token)
    raise CredentialsError(
        f"There is no token for GitHub ({api_url}).",
        kept="Nothing was started.",
        hint="Log in with: gh auth login   or set GITHUB_TOKEN",
    )


def find_address(api_url: str | None, environment: Mapping[str, str] | None = None) -> str:
    """Return the address of the API."""
    known = os.environ if environment is None else environment
    return (api_url or known.get("GITHUB_API_URL", "").strip() or PUBLIC).rstrip("/")


def _ask_gh(host: str) -> str:
    """Return the token that gh uses for a host; empty if gh is absent or not logged in."""
    command = ["gh", "auth", "token", "--hostname", host]
    said = probe(command, env=child_environment(_GH_PASSED))
    return said.out.decode("utf-8", "replace").strip() if said is not None and said.exit_code == 0 else ""


def open_rest(access: GithubAccess, clean: Callable[[str], str]) -> Rest:
    """Return the REST API with a token."""
    headers = {
        "authorization": f"Bearer {access.token}",
        "accept": "application/vnd.github+json",
        "x-github-api-version": "2022-11-28",
    }
    return Rest("GitHub", access.api_url, headers, clean, words=_REST_WORDS)
