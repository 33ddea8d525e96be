"""What of a home is not for agents: measured at each launch, because tools come and log in.

Of dot files and of the folders for settings, only what is needed or plainly harmless is seen. A tool's folder
is harmless if it has only short texts, none of them private or with a secret; else the whole of it is hidden.
In places that builds need, only the secrets are: a file of them is hidden, of other settings their values.
Credentials are told from settings by what they look like: the name, the content and the mode of a file.
"""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from segue.system.files import list_folder
from segue.system.isolation.places import CACHES, NEEDED, SETTINGS, TOOLS
from segue.system.redact import MARK, Redactor

_LARGEST = 128 * 1024
"""Settings are smaller; of what is larger nobody can say that it is harmless."""
_NAME = re.compile(
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
_ASSIGNED = re.compile(
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
_TABLE = re.compile(rf"(?i)[\"'\[]{_KEY}[\"']?\s*(?::\s*[{{\[]|\])|\[(?:\s*\d{{1,3}},){{31}}")
"""A table or list whose name says that there are secrets in it; the bytes of a key."""
_WORD = re.compile(r"[A-Za-z0-9_+=]{20,}")
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
    kinds = [(one.isdigit(), one.isupper()) for one in word]
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


_FOLDERS = ("", ".config", ".local", ".local/share", ".local/state", ".cache")
"""Where each entry belongs to another tool."""
_XDG = {
    "XDG_CONFIG_HOME": ".config",
    "XDG_DATA_HOME": ".local/share",
    "XDG_STATE_HOME": ".local/state",
    "XDG_CACHE_HOME": ".cache",
}
_MOST_ENTRIES = 2000
_MOST_FILES = 200
"""Entries of a folder that are looked at; beyond that nobody can say that it is harmless."""
_MOST_SETTINGS = 100
_CODE = (
    *(".py", ".sh", ".js", ".ts", ".rb", ".go", ".rs", ".java", ".c", ".h", ".pl", ".lua", ".zsh", ".vim"),
    *(".jar"),
)


class PrivateParts(Struct, frozen=True):
    """What of a home is hidden, and which files are seen without the secrets in them."""

    hidden: tuple[Path, ...] = ()
    masked: tuple[tuple[Path, str], ...] = ()
    """Files with what is seen instead."""
    opened: tuple[Path, ...] = ()
    """What the user shows although it is hidden otherwise."""


def find_private(home: Path) -> PrivateParts:
    """Return the parts of a home that a program sees only if it is given them."""
    look = _Look(home)
    elsewhere = [
        (Path(os.environ[variable]), name) for variable, name in _XDG.items() if variable in os.environ
    ]
    for folder, name in [*((home / name, name) for name in _FOLDERS), *elsewhere]:
        for entry in list_folder(folder, _MOST_ENTRIES):
            look.at_entry(entry, f"{name}/{entry.name}" if name else entry.name)
    return PrivateParts(tuple(look.hidden), tuple(look.masked.items()))


class _Look:
    """One look at a home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.by_mode = _umask() & 0o077 != 0o077
        self.needed = {*TOOLS, *CACHES, *NEEDED}
        self.around = {str(above) for name in self.needed for above in Path(name).parents} - {"."}
        self.hidden: dict[Path, None] = {}
        self.masked: dict[Path, str] = {}

    def at_entry(self, entry: os.DirEntry[str], name: str) -> None:
        """Look at what one tool has in the home."""
        if name in _FOLDERS:
            return
        if not entry.is_dir():
            self._at_file(Path(entry.path), name)
        elif name.startswith(".cache/"):
            for inner in list_folder(Path(entry.path), _MOST_ENTRIES):
                if (has_private_name(inner.name) and not inner.is_dir()) or _is_special(inner):
                    self._hide(Path(inner.path))
        elif name in self.needed or name in self.around:
            self._at_settings(Path(entry.path), name)
        elif name.startswith(".") and not self._is_harmless(entry.path):
            self._hide(Path(entry.path))

    def _at_file(self, path: Path, name: str) -> None:
        if name in SETTINGS or name.startswith(".gitconfig"):
            self._mask(path)
        elif has_private_name(path.name):
            self._hide(path)
        elif name.startswith("."):
            if not is_harmless(str(path), by_mode=self.by_mode):
                self._hide(path)
        elif (text := read_text(str(path))) and has_secrets(text):
            self._hide(path)

    def _at_settings(self, folder: Path, name: str) -> None:
        """Look at the settings of a tool that builds need: in its folder, and in those of that folder."""
        for entry in self._settings(folder, name, 0):
            path = Path(entry.path)
            if _is_special(entry) or has_private_name(entry.name):
                self._hide(path)
            else:
                self._mask(path)

    def _settings(self, folder: Path, name: str, depth: int) -> Iterator[os.DirEntry[str]]:
        for entry in list_folder(folder, _MOST_SETTINGS):
            inner = f"{name}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if depth < 1 and inner not in self.needed:
                    yield from self._settings(Path(entry.path), inner, depth + 1)
            elif not entry.name.endswith(_CODE) and not os.access(entry.path, os.X_OK):
                yield entry

    def _mask(self, path: Path) -> None:
        if (shown := mask_file(str(path))) is not None:
            self.masked[Path(os.path.realpath(path))] = shown

    def _hide(self, path: Path) -> None:
        real = Path(os.path.realpath(path))
        if real != self.home and not self.home.is_relative_to(real):
            self.hidden[real] = None

    def _is_harmless(self, folder: str) -> bool:
        waiting, seen = deque([folder]), 0
        while waiting:
            for entry in list_folder(Path(waiting.popleft()), _MOST_FILES):
                seen += 1
                if seen >= _MOST_FILES or has_private_name(entry.name):
                    return False
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
                elif not is_harmless(entry.path, by_mode=self.by_mode):
                    return False
        return True


def own_places(home: Path, argv: Sequence[str], program: Path) -> list[Path]:
    """Return what is a program's own: by its name, and tools' folders in which its command names a file."""
    named = [home / folder / program.name for folder in _FOLDERS[1:]]
    found = [home / f".{program.name}", *named]
    for word in argv:
        place = Path(word)
        if place.is_relative_to(home) and place.is_file():
            parts = place.relative_to(home).parts
            depth = next(n for n in (1, 2, 3) if "/".join(parts[:n]) not in _FOLDERS)
            found += [home.joinpath(*parts[:depth])] if len(parts) > depth else []
    return [place for place in found if place.is_dir()]


def _is_special(entry: os.DirEntry[str]) -> bool:
    try:
        mode = entry.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _umask() -> int:
    """Return the mode that new files do not get: if it is everything for others, modes say nothing."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0o022
    return next((int(line.split()[1], 8) for line in lines if line.startswith("Umask:")), 0o022)
