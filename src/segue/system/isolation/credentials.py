"""Tell credentials from settings by what they look like: the name, the content and the mode of a file."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from segue.domain.pattern import pattern
from segue.system.redact import MARK, Redactor

_LARGEST = 128 * 1024
"""Settings are smaller; of what is larger nobody can say that it is harmless."""
_NAME = pattern(
    r"credential|creds\b|passw|secret|token(?!i)|(?<![a-z])o?auth(?!or)|cookies|logins?\b|keyring|keychain"
    r"|wallet|keystore|netrc|vault|pgpass|viminfo|(?:^|[._-])keys?(?:[._-]|\d*$)|^id_(?:rsa|dsa|ecdsa|ed25519)"
    r"|\.(?:p12|pfx|ppk|pem|jks|kdbx|gpg|age|asc|keytab|ovpn|kwl)$|(?:history|hist|hst)$",
    re.IGNORECASE,
)
"""Names that tools give to files with credentials and to histories."""
_KEY = (
    r"[\w.$:-]{0,60}?(?:secret|passw(?:or)?d|passphrase|credential|bearer|cookie|private|ciphertext|xprv"
    r"|(?<!mon)(?<!tur)(?<!don)(?<!bind)(?<!sort_)(?<!public)(?<!signing)key|token|jwt|mnemonic"
    r"|(?<!by)(?<!com)pass|(?<![a-z])(?:pat|pwd|dsn|o?auth|sas|master))s?(?![a-z])[\w.-]{0,60}?"
)
_REFERENCE = r"[$~/{<%(\[]|env[:(]|\d{1,5}(?![\w.])|(?:none|null|true|false|undefined|keyring)\b"
"""How a value begins that only says where the secret is, or that there is none."""
_VALUE = rf"(?!{_REFERENCE})[^\s\"'<>,;{{}}]{{6,}}"
_NAMES = r"(?=[\w.$:-]{1,140}[\"']?[ \t]*(?:=>|[:=]|,<<))"
_QUOTES = r"(?=[\w.$:-]{1,140}[ \t]+[\"'])"
"""What follows a name that has a value: prose has none, and `_KEY` looks long at each of its words."""
_ASSIGNED = pattern(
    rf"(?i)<add\s+key=[\"']{_KEY}[\"']\s+value=[\"'](?P<added>[^\"']+)"
    rf"|(?:^|[\s\"'<{{,;(\[/&?]){_NAMES}{_KEY}[\"']?[ \t]*(?:=>|[:=]|,<<)[ \t]*[\"']?(?P<assigned>{_VALUE})"
    rf"|<{_KEY}(?:\s[^<>]{{0,200}})?>(?P<tagged>[^<]{{4,2000}})</"
    rf"|(?:^|\s)(?:pass|password|passwd|secret|token|auth|bearer|basic)[ \t]+[\"']?(?P<said>{_VALUE})"
    rf"|(?:^|\s){_QUOTES}{_KEY}[ \t]+[\"'](?P<quoted>{_VALUE})[\"']"
    r"|(?:^|\s)user[ \t]*=[ \t]*[\"']?[^\s:\"']{1,100}:(?P<both>[^\s\"']+)"
    r"|://[^\s:/@\"']{0,200}:(?P<login>(?!\$)[^\s/@\"']+)@"
    r"|://\S{1,300}/t/(?P<path>[\w-]{8,})/"
    r"|\bBUNDLE_\w*__\w*:\s*\"(?P<gems>[^\"]+)\""
    r"|(?P<key>-----BEGIN [A-Z ]{0,30}PRIVATE KEY[\w+/=\s\\:,-]{0,8000}|AGE-SECRET-KEY-\w+)"
)
"""A name of a secret with a value, in any of the usual notations; a password in an address; a private key."""
_TABLE = pattern(rf"(?i)[\"'\[]{_KEY}[\"']?\s*(?::\s*[{{\[]|\])|\[(?:\s*\d{{1,3}},){{31}}")
"""A table or list whose name says that there are secrets in it; the bytes of a key."""
_WORD = pattern(r"[A-Za-z0-9_+=]{20,}")
_HARMLESS = frozenset({"password", "changeme", "disabled", "required", "optional", "__token__"})
_SHAPES = Redactor()


def has_private_name(name: str) -> bool:
    """Return whether a file is named like one with credentials, or like a history."""
    return _NAME.search(name) is not None


def is_harmless(path: str, *, by_mode: bool) -> bool:
    """Return whether a file is a plain text without secrets; by its mode, one that others may read too."""
    try:
        found = Path(path).stat()
    except OSError:
        return True  # a link to nothing
    if not stat.S_ISREG(found.st_mode) or found.st_size > _LARGEST:
        return False
    if by_mode and not found.st_mode & 0o077:
        return False
    return _is_plain(path, _version(found))


def mask_file(path: str) -> str | None:
    """Return a file of settings without the values of its secrets; None if it has none, or is no text."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return _mask_file(path, _version(found))


def _version(found: os.stat_result) -> tuple[int, ...]:
    """Return what changes whenever a file does: reading it again for each of many checks takes seconds."""
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@lru_cache(maxsize=4096)
def _is_plain(path: str, _: tuple[int, ...]) -> bool:
    text = read_text(path)
    return text is not None and not has_secrets(text) and not _TABLE.search(text)


@lru_cache(maxsize=4096)
def _mask_file(path: str, _: tuple[int, ...]) -> str | None:
    text = read_text(path)
    shown = None if text is None else mask(text)
    return None if shown == text else shown


def read_text(path: str) -> str | None:
    """Return what a plain file of a usual size contains; None if it is something else, or no text."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
        with os.fdopen(handle, "rb") as file:
            is_plain = stat.S_ISREG(os.fstat(handle).st_mode)
            data = file.read(_LARGEST + 1) if is_plain else b"\0"
    except OSError:
        return None
    return None if b"\0" in data or len(data) > _LARGEST else data.decode("utf-8", "surrogateescape")


def has_secrets(text: str) -> bool:
    """Return whether something in a text looks like a secret."""
    return next(_find(text), None) is not None or _SHAPES.text(text) != text


def _find(text: str) -> Iterator[tuple[int, int]]:
    """Yield where in a text values of secrets are."""
    for match in _ASSIGNED.finditer(text):
        assert match.lastgroup
        if match[match.lastgroup].lower() not in _HARMLESS:
            yield match.span(match.lastgroup)
    yield from (match.span() for match in _WORD.finditer(text) if _looks_random(match[0]))


def _looks_random(word: str) -> bool:
    """Return whether letters, capitals and digits change as often as in a token, not as in a name."""
    kinds = ["0" if one.isdigit() else "A" if one.isupper() else "a" for one in word]
    changes = sum(one != other for one, other in pairwise(kinds))
    return len(set(kinds)) == 3 and changes >= 0.4 * len(word)


def mask(text: str) -> str:
    """Return settings without the values of their secrets."""
    found, place = [], 0
    for start, end in sorted(_find(text)):
        if start >= place:
            found += [text[place:start], MARK]
            place = end
    return _SHAPES.text("".join([*found, text[place:]]))
