"""Authenticates browsers: a link works once and sets a cookie; nobody else gets in.

The cookie is HttpOnly and SameSite=Strict; a request that changes something must also have this page as its
origin. Programs may send the token in an Authorization header instead.
"""

from __future__ import annotations

import hmac
import secrets

from starlette.requests import HTTPConnection

from segue.system.http.guard import AsgiApp, Message, Receive, Scope, Send, has_token

ENTRY = "/enter"
_PUBLIC = ("/static/", "/health")
_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        b" form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class AccessKeys:
    """The token of the session, and the keys of unused links."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._links: dict[str, str] = {}

    def make_link(self, where: str) -> str:
        """Make the path of a link that lets one browser in, once, and leads to a page."""
        key = secrets.token_urlsafe(24)
        self._links[key] = where
        return f"{ENTRY}?key={key}"

    def redeem(self, key: str) -> str | None:
        """Return where the link with this key leads, None if the key is invalid; each key works once."""
        for known in list(self._links):
            if hmac.compare_digest(known.encode(), key.encode()):
                return self._links.pop(known)
        return None

    def make_cookie(self, request: HTTPConnection) -> str:
        """Make the cookie. Its name contains the port, as browsers share cookies between ports."""
        return f"{_cookie_name(request)}={self._token}; Path=/; HttpOnly; SameSite=Strict"

    def is_known(self, request: HTTPConnection) -> bool:
        """Return whether the request has the token or the cookie."""
        if header := request.headers.get("authorization"):
            return has_token(header, self._token)
        found = request.cookies.get(_cookie_name(request), "")
        return hmac.compare_digest(found.encode(), self._token.encode())


class AuthMiddleware:
    """Passes authenticated requests to the app, and adds security headers to every response."""

    def __init__(self, app: AsgiApp, keys: AccessKeys, refuse: AsgiApp) -> None:
        """`refuse` answers all other requests."""
        self._app = app
        self._keys = keys
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        request = HTTPConnection(scope)
        known = scope["path"] == ENTRY or scope["path"].startswith(_PUBLIC) or self._keys.is_known(request)
        scope["segue.refused"] = "" if known else "stranger"
        # A change is asked for by our page (the guard compared its origin) or by a program.
        if (
            known
            and scope["method"] not in ("GET", "HEAD")
            and not {"origin", "authorization"} & set(request.headers)
        ):
            scope["segue.refused"] = "origin"
        inner = self._refuse if scope["segue.refused"] else self._app
        await inner(scope, receive, _add_headers(send, cached=scope["path"].startswith("/static/")))


def _add_headers(send: Send, cached: bool) -> Send:
    async def send_safe(message: Message) -> None:
        if message["type"] == "http.response.start":
            caching = [] if cached else [(b"cache-control", b"no-store")]
            message = {**message, "headers": [*message["headers"], *_HEADERS, *caching]}
        await send(message)

    return send_safe


def _cookie_name(request: HTTPConnection) -> str:
    port = request.headers.get("host", "").rpartition(":")[2]
    return f"segue_{port}" if port.isdecimal() else "segue"
