"""One spelling for the address of a repository, whoever wrote it: people, git or an API."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

_SCHEME = re.compile(r"(?:git\+)?(https?|ssh|git)://", re.IGNORECASE)
_ANY_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_HOST = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
_NAME = re.compile(r"[\w .~+-]+")
_AMBIGUOUS = re.compile(r"[\s\\\x00-\x1f]")
"""Programs disagree about where a host ends when one of these is in it."""
_DEFAULT_PORTS = {"http": "80", "https": "443"}


def canonical_address(address: str) -> str:
    """Return the address as `https://host/owner/name`; ValueError when it is not one of a hosted repository.

    Scheme, user, password, default port, `.git`, a last slash, needless encoding and the host's case make no
    difference.
    """
    text = address.strip().partition("#")[0].partition("?")[0]
    host, port, path = ("", "", "") if _AMBIGUOUS.search(text) else _parts(text)
    host = host.lower().rstrip(".")
    segments = [unquote(segment) for segment in path.removesuffix("/").split("/")]
    segments[-1] = _without_suffix(segments[-1])
    if not _HOST.fullmatch(host) or len(segments) < 2 or not all(map(_is_one_name, segments)):
        raise ValueError(f"{_without_user(text)!r} is not the address of a hosted repository")
    return f"https://{host}{port}/{'/'.join(quote(segment, safe='+') for segment in segments)}"


def same_repository(one: str, other: str) -> bool:
    """Return whether two addresses name one repository; hosts ignore the case of owners and names."""
    try:
        return canonical_address(one).lower() == canonical_address(other).lower()
    except ValueError:
        return False


def _parts(text: str) -> tuple[str, str, str]:
    """Host, port with its colon, and path."""
    if found := _SCHEME.match(text):
        authority, _, path = text[found.end() :].partition("/")
        host, _, port = authority.rpartition("@")[2].partition(":")
        return host, _port(found[1].lower(), port), path
    if _ANY_SCHEME.match(text) or text.startswith(("/", ".", "~")):
        return "", "", ""
    before, _, path = text.partition("/")
    if ":" in before.rpartition("@")[2]:
        return _scp_parts(text)
    host = before.rpartition("@")[2]
    return (host, "", path) if "." in host else ("", "", "")


def _scp_parts(text: str) -> tuple[str, str, str]:
    """`git@host:owner/name`, and `host:8443/owner/name` as APIs write it."""
    user, _, rest = text.partition("/")[0].rpartition("@")
    host, _, begin = rest.partition(":")
    if not user and begin.isdecimal():
        return host, _port("https", begin), text.partition("/")[2]
    path = text[len(user) + bool(user) + len(host) + 1 :].removeprefix("/")
    # Without a user and a dot it is as likely a drive of Windows.
    return (host, "", path) if user or "." in host else ("", "", "")


def _port(scheme: str, port: str) -> str:
    """Return the port where it matters; that of ssh says nothing about where https would be."""
    if not port or scheme not in _DEFAULT_PORTS or port == _DEFAULT_PORTS[scheme]:
        return ""
    if not port.isascii() or not port.isdecimal():
        raise ValueError("the address has no valid port")
    return f":{port}"


def _is_one_name(segment: str) -> bool:
    """Return whether a segment, decoded once, is one name, also for a service that decodes it again."""
    return bool(_NAME.fullmatch(segment) and segment.strip(". "))


def _without_suffix(name: str) -> str:
    while name.lower().endswith(".git"):
        name = name[:-4]
    return name


def _without_user(text: str) -> str:
    """Return the address for a message: whatever is before the last @ may be a password."""
    return text.rpartition("@")[2]
