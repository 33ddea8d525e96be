"""Authenticates browsers and programs: who has neither a cookie nor the token does not get in.

A link works once, for a few minutes, and gives a browser a cookie. The cookie is no token: it says until when
a browser is let in, and is signed. It counts at the page's own name alone, NAME.localhost, because browsers
send the cookies of 127.0.0.1 to every program that listens there. A request that changes something must also
have this page as its origin. Programs send the token in an Authorization header instead.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import ipaddress
import logging
import re
import secrets
import time
from pathlib import Path

import msgspec
from starlette.requests import HTTPConnection

from segue.system.http.guard import (
    AsgiApp,
    Message,
    Receive,
    Scope,
    Send,
    has_token,
    without_port,
)
from segue.system.identity import start_time
from segue.system.secrets import keep_secret, make_secret_folder, read_secret, write_secret

_log = logging.getLogger(__name__)
ENTRY = "/enter"
LINK_SECONDS = 600
_SESSION_SECONDS = 14 * 86_400
_PUBLIC = ("/static/", "/health")
_NAME = re.compile(r"segue-[0-9a-f]{20}")
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


class UnusedLink(msgspec.Struct, frozen=True):
    """Where a link leads, and until when; the name of its file is the digest of its key."""

    where: str
    until: float


class RunningPage(msgspec.Struct, frozen=True):
    """A page that is being served, and by which process."""

    url: str
    port: int
    pid: int
    start: str | None
    since: float


class PageKeys:
    """The page's name, its token, its unused links and the key of its cookies, in a folder for secrets."""

    def __init__(self, folder: Path) -> None:
        self._folder = make_secret_folder(folder)
        self.token_file = folder / "token"
        self._token = keep_secret(self.token_file, lambda: secrets.token_urlsafe(32))
        self._key = keep_secret(folder / "cookie-key", lambda: secrets.token_hex(32)).encode()
        name = keep_secret(folder / "name", lambda: f"segue-{secrets.token_hex(10)}")
        assert _NAME.fullmatch(name), f"{folder / 'name'} was damaged"
        self.host = f"{name}.localhost"
        """The name under which browsers find the page: nobody can guess it."""

    def make_link(self, where: str) -> str:
        """Make the path of a link that lets one browser in, once, and leads to a page."""
        self._forget_old_links()
        key = secrets.token_urlsafe(24)
        write_secret(self._link(key), msgspec.json.encode(UnusedLink(where, time.time() + LINK_SECONDS)))
        return f"{ENTRY}?key={key}"

    def find_link(self, key: str) -> UnusedLink | None:
        """Return the link with this key if it can still be used."""
        found = read_secret(self._link(key))
        link = msgspec.json.decode(found, type=UnusedLink) if found else None
        return link if link and link.until > time.time() else None

    def redeem(self, key: str) -> str | None:
        """Return where the link with this key leads, None if the key is invalid; each key works once."""
        link = self.find_link(key)
        try:
            self._link(key).unlink()  # of two that come at once, one fails here
        except FileNotFoundError:
            return None
        return link.where if link else None

    def make_cookie(self, request: HTTPConnection) -> str:
        """Make the cookie of a browser that was let in; nobody but this host gets it."""
        session = f"{int(time.time()) + _SESSION_SECONDS}.{secrets.token_hex(8)}"
        value = f"{session}.{self._sign(session)}"
        rules = f"Path=/; HttpOnly; SameSite=Strict; Max-Age={_SESSION_SECONDS}"
        return f"{_cookie_name(request)}={value}; {rules}"

    def is_known(self, request: HTTPConnection) -> bool:
        """Return whether the request has the token or, at the page's own name, a cookie."""
        if header := request.headers.get("authorization"):
            return has_token(header, self._token)
        return not is_shared(host_of(request)) and self._is_signed(
            request.cookies.get(_cookie_name(request), "")
        )

    def announce(self, url: str, port: int, pid: int) -> Path:
        """Note that the page is served; return the note, to be deleted at the end."""
        note = self._folder / "served" / f"{pid}-{port}.json"
        page = RunningPage(url, port, pid, start_time(pid), time.time())
        write_secret(note, msgspec.json.encode(page))
        return note

    def find_pages(self) -> list[RunningPage]:
        """Return the pages that are being served, the newest first."""
        found = []
        for note in (self._folder / "served").glob("*.json"):
            page = msgspec.json.decode(data, type=RunningPage) if (data := read_secret(note)) else None
            if page and page.start is not None and start_time(page.pid) == page.start:
                found.append(page)
            else:
                note.unlink(missing_ok=True)
        return sorted(found, key=lambda page: -page.since)

    def _is_signed(self, cookie: str) -> bool:
        session, _, signature = cookie.rpartition(".")
        right = hmac.compare_digest(signature.encode(), self._sign(session).encode())
        return right and int(session.partition(".")[0]) > time.time()

    def _sign(self, session: str) -> str:
        return hmac.new(self._key, f"session {session}".encode(), hashlib.sha256).hexdigest()

    def _link(self, key: str) -> Path:
        digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
        return self._folder / "links" / f"{digest}.json"

    def _forget_old_links(self) -> None:
        for path in (self._folder / "links").glob("*.json"):
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_mtime < time.time() - LINK_SECONDS:
                    path.unlink()


class AuthMiddleware:
    """Passes authenticated requests to the app, and adds security headers to every response."""

    def __init__(self, app: AsgiApp, keys: PageKeys, refuse: AsgiApp) -> None:
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
        if scope["segue.refused"]:
            client = (scope.get("client") or ("an unknown address",))[0]
            why = "it is not known" if not known else "the request came from another page"
            _log.info("refused %s %s of %s: %s", scope["method"], scope["path"], client, why)
        inner = self._refuse if scope["segue.refused"] else self._app
        await inner(scope, receive, _add_headers(send, cached=scope["path"].startswith("/static/")))


def host_of(request: HTTPConnection) -> str:
    """Return the name or address that the request was sent to."""
    return without_port(request.headers.get("host", "")).lower().strip("[]")


def is_shared(host: str) -> bool:
    """Return whether a browser shares the cookies of this host with all that listens on this machine."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return address.is_loopback or address.is_unspecified


def _add_headers(send: Send, cached: bool) -> Send:
    async def send_safe(message: Message) -> None:
        if message["type"] == "http.response.start":
            caching = [] if cached else [(b"cache-control", b"no-store")]
            message = {**message, "headers": [*message["headers"], *_HEADERS, *caching]}
        await send(message)

    return send_safe


def _cookie_name(request: HTTPConnection) -> str:
    port = request.headers.get("host", "").rpartition(":")[2]
    return f"segue_{port}" if port.isascii() and port.isdecimal() else "segue"
