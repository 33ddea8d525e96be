"""The door of the page: a link that works once, a cookie for the browser that used it, nobody else.

The cookie is HttpOnly and SameSite=Strict; whatever changes something must also name this page as its
origin. Programs may carry the token in an Authorization header instead.
"""

from __future__ import annotations

import hmac
import secrets
from http.cookies import CookieError, SimpleCookie

from segue.system.http.guard import AsgiApp, Message, Receive, Scope, Send, has_token

ENTRY = "/enter"
_OPEN = ("/static/", "/health")
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


class Keys:
    """The session's token, and the keys of links that were not used yet."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._links: dict[str, str] = {}

    def new_link(self, where: str) -> str:
        """The path of a link that lets one browser in, once, and leads it to a page."""
        key = secrets.token_urlsafe(24)
        self._links[key] = where
        return f"{ENTRY}?key={key}"

    def use(self, key: str) -> str | None:
        """Where the link with this key leads, if the key is good; it is dead afterwards."""
        for known in list(self._links):
            if hmac.compare_digest(known.encode(), key.encode()):
                return self._links.pop(known)
        return None

    def cookie(self, scope: Scope) -> str:
        """What the browser is given. Browsers share cookies between ports: the port is in its name."""
        return f"{_name(scope)}={self._token}; Path=/; HttpOnly; SameSite=Strict"

    def known(self, scope: Scope) -> bool:
        """Whether the request comes from somebody who was let in."""
        header = _header(scope, b"authorization")
        if header:
            return has_token(header, self._token)
        try:
            found = SimpleCookie(_header(scope, b"cookie")).get(_name(scope))
        except CookieError:
            return False
        return found is not None and hmac.compare_digest(found.value.encode(), self._token.encode())


class Door:
    """Wraps the app: lets those in who are known, and gives every answer its safety headers."""

    def __init__(self, app: AsgiApp, keys: Keys, stranger: AsgiApp) -> None:
        """`stranger` answers whoever is not let in."""
        self._app = app
        self._keys = keys
        self._stranger = stranger

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the request in, or turn it away."""
        known = scope["path"] == ENTRY or scope["path"].startswith(_OPEN) or self._keys.known(scope)
        scope["segue.refused"] = "" if known else "stranger"
        if known and scope["method"] not in ("GET", "HEAD") and not _own(scope):
            scope["segue.refused"] = "origin"
        inside = self._stranger if scope["segue.refused"] else self._app
        await inside(scope, receive, _safe(send, cached=scope["path"].startswith("/static/")))


def _own(scope: Scope) -> bool:
    """Whether a change was asked for by our own page (the guard has compared its origin), or by a program."""
    return bool(_header(scope, b"origin") or _header(scope, b"authorization"))


def _safe(send: Send, cached: bool) -> Send:
    async def safe(message: Message) -> None:
        if message["type"] == "http.response.start":
            kept = [] if cached else [(b"cache-control", b"no-store")]
            message = {**message, "headers": [*message["headers"], *_HEADERS, *kept]}
        await send(message)

    return safe


def _name(scope: Scope) -> str:
    port = _header(scope, b"host").rpartition(":")[2]
    return f"segue_{port}" if port.isdecimal() else "segue"


def _header(scope: Scope, name: bytes) -> str:
    return next((value.decode("latin-1") for found, value in scope["headers"] if found.lower() == name), "")
